//! Event sockets. One stream is one (worker, rank) socket; its task only drains it, so that a busy index never makes
//! the engine drop messages.

mod event;
mod handle;
mod spec;

pub use event::{ReplayId, StreamEvent};
pub use handle::{StreamHandle, StreamStats, spawn};
pub use spec::{StreamLimits, StreamSpec};
