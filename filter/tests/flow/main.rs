//! The whole request flow against a fake Envoy: every trap of the platform is a test here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a test crate"
)]

mod aborts;
mod bodies;
mod booking;
mod bridge;
mod configuration;
mod cost;
mod feed;
mod headers;
mod ingest;
mod leaving;
mod policies;
mod predicted;
mod prefill;
mod response;
mod routing;
mod rows;
mod slices;
mod stage;
mod view;
