//! The HTTP interface: vLLM's OpenAI-compatible routes and the `/mock` controls.

mod admin;
mod answer;
mod app;
mod body;
mod chat;
mod completions;
mod error;
mod faults;
mod generate;
mod handoff;
mod server;
mod stream;
mod tokenize;
mod usage;

pub use app::{App, AppParts};
pub use faults::{Faults, HealthFault, RequestFault, RequestFaultKind};
pub use server::{Bound, Server, router};
