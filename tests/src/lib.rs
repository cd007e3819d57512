//! Support for the end-to-end tests: starts a real Envoy on the checked-in configuration, the event bridge and
//! engines, each on ports of its own, and stops every process it started.
//!
//! | module | what |
//! |---|---|
//! | [`stack`] | everything together, as most tests want it |
//! | [`disagg`] | the same over prefill and decode engines |
//! | [`envoy`], [`bridge`], [`engine`] | one process each |
//! | [`gate`] | a TCP proxy that can be shut |
//! | [`recorder`] | an engine that only writes down what reaches it |
//! | [`player`] | recorded event frames on a real socket |
//! | [`client`] | HTTP client with timing, trailers and raw header bytes |
//! | [`prompt`] | prompts of a wanted length, conversations |
//! | [`traffic`] | steady requests in the background |
//! | [`replay`] | a trace through Envoy at its own arrival times |
//! | [`decision`] | what the access log says about a request |
//! | [`process`], [`scratch`], [`wait`], [`paths`], [`ports`] | processes, folders, polling, where things are |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code: a panic is how a test fails"
)]

pub mod bridge;
pub mod client;
pub mod decision;
pub mod disagg;
pub mod engine;
pub mod envoy;
pub mod gate;
pub mod paths;
pub mod player;
pub mod ports;
pub mod process;
pub mod prompt;
pub mod recorder;
pub mod replay;
pub mod scratch;
pub mod stack;
pub mod traffic;
pub mod wait;
