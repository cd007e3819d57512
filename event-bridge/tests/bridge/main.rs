//! The whole bridge in this process, against an ingest listener and workers that only pretend.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod envoy;
mod envoys;
mod events;
#[allow(dead_code, reason = "shared with the tests of streams, which use more of it")]
#[path = "../streams/fake.rs"]
mod fake;
mod policy;
mod shutdown;
mod support;
mod worker;
mod workers;
