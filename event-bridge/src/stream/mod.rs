//! Event sockets. One stream is one (worker, rank) socket; its task only drains it, so that a busy index never makes
//! the engine drop messages.

mod backlog;
mod endpoint;
mod event;
mod handle;
mod live;
mod poll;
mod replay;
mod sharing;
mod spec;
mod transport;
pub mod zmtp;

pub use endpoint::EndpointError;
pub use event::{ReplayId, StreamEvent};
pub use handle::{StreamHandle, StreamStats, spawn};
pub use poll::{PollHandle, PollSpec, PollTargets, spawn_poll};
pub use sharing::{SharedLimits, Sharing};
pub use spec::{StreamLimits, StreamSpec};
