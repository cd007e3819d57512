//! Measuring tools. The programs in `bin/` use them.
//!
//! | module | what |
//! |---|---|
//! | [`load`] | closed-loop load over plain blocking sockets, so that the generator costs little and adds no scheduler |
//! | [`cpu`] | processor time of other processes |
//! | [`path`] | Envoy with the filter, without it, and no Envoy |
//! | [`bodies`] | chat requests of a wanted length, with text shared or never seen |
//! | [`tokens`] | tokenizing inside Envoy, beside the Hugging Face library in the same place |
//! | [`readme`] | outcomes into `bench/README.md` |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "measuring tools: whatever goes wrong ends the measurement"
)]

pub mod bodies;
pub mod cpu;
pub mod load;
pub mod path;
pub mod readme;
pub mod tokens;
