//! End-to-end tests. Each starts what it needs and shares nothing with the others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code: a panic is how a test fails"
)]

mod bridge_tokens;
mod command_line;
mod degraded;
mod disagg;
mod failures;
mod harness;
mod headers;
mod large;
mod membership;
mod parity;
mod policy_modes;
mod policy_swaps;
mod ranks;
mod real_frames;
mod replay;
mod routing;
