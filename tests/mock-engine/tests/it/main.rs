//! Tests of the whole engine: against recorded traffic of a real one, over its sockets, and through its binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should stop loudly where it happens"
)]

mod api;
mod binary;
mod disagg;
mod events;
mod faults;
mod recorded;
mod recorded_data;
mod recorded_http;
mod support;
mod templates;
