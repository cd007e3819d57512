//! A simulated inference engine: vLLM's HTTP interface over a real paged KV cache with real ZMQ events.
//!
//! It shares no code with the router it is used to test. Tokens come from Hugging Face's `tokenizers`, prompts from the
//! template engine's full feature set, block hashes and event bytes from the rules of vLLM 0.32.
//!
//! Reading order: `cache` (blocks, hashes, eviction), `sched` (requests over blocks, a pure state machine), `engine`
//! (the step loop in time), `events` (bytes and sockets), `model` (tokenizer, template, answers), `transfer`
//! (disaggregated serving), `http`.
#![allow(
    clippy::indexing_slicing,
    reason = "a test tool: indices are block and request numbers made here, and a panic should be loud"
)]

pub mod cache;
pub mod config;
pub mod engine;
pub mod events;
pub mod http;
pub mod metrics;
pub mod model;
pub mod sched;
mod start;
pub mod transfer;

pub use config::{Adapter, EngineConfig, EventsConfig, ModelSource, Speed};
pub use http::{Faults, HealthFault, RequestFault, RequestFaultKind};
pub use model::Model;
pub use start::{MockEngine, StartError};
pub use transfer::{PdProtocol, Role, TransferConfig};
