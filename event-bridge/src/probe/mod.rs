//! Health and load of workers. Probes only report; what follows from a report is the pool's business.

mod handoff;
mod health;
mod http;
mod load;
mod names;
mod prometheus;
mod sources;
mod task;

pub use handoff::{EngineHandoff, HandoffProbe};
pub use http::{ProbeError, WorkerClient};
pub use load::{EngineLoad, RankLoad};
pub use task::{MemberId, ProbeHandle, ProbeReport, Subject, spawn};
