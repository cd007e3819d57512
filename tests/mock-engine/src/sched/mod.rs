//! The scheduler: a pure state machine of waiting and running requests over one rank's block pool.
//!
//! One step is [`Scheduler::schedule`], then the time it takes, then [`Scheduler::complete`]. No clock and no sockets
//! here; `engine` drives it.

mod request;
mod scheduler;
mod step;
#[cfg(test)]
mod tests;

pub use request::{AnswerTokens, FinishReason, Output, Request, RequestId, RequestSpec};
pub use scheduler::{Scheduler, SchedulerLimits, SchedulerStats};
pub use step::{Emission, Step};
