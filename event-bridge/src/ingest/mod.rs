//! Order, gaps and restarts of streams, and events to the prefix index of one pool. No sockets and no clock: stream
//! events and the time come in, actions go out.

mod config;
mod pool;
mod report;

pub use config::{GapPolicy, IngestConfig, SourceSpec};
pub use pool::{Action, Ingest};
pub use report::{Parity, Reason, SourceReport};
