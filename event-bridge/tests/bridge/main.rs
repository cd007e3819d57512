//! The whole bridge in this process, against an ingest listener and workers that only pretend.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod engine_checks;
mod envoy;
mod envoys;
mod events;
#[allow(dead_code, reason = "shared with the tests of streams, which use other parts of it")]
#[path = "../streams/fake.rs"]
mod fake;
mod policy;
mod shutdown;
mod sources;
mod support;
mod warm;
mod worker;
mod workers;
