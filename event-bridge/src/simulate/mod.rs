//! A trace replayed against modelled engines, so that a policy can be judged before it is put in force.
//!
//! The policy's own code chooses: [`kv_routing::policy::route`], with the ledger that the filter keeps. What is modelled
//! is the engines (`engine`): a prefix cache with least-recently-used eviction, one prefill at a time at a fixed speed,
//! a bounded number of requests in decode, a queue. Sessions are remembered as the filter does, by the name of the conversation. The index is taken to be exact and immediate. Everything is a function of
//! trace, policy, model and seed.
//!
//! | module | what |
//! |---|---|
//! | `trace` | trace lines to arrivals |
//! | `conversations` | which arrivals belong together, where the trace does not say |
//! | `cache` | one engine's prefix cache |
//! | `engine` | one engine |
//! | `run` | arrivals and engine events in order of time, each arrival through the policy |
//! | `report` | what came out |

mod cache;
mod conversations;
mod engine;
mod report;
mod run;
mod trace;

pub use engine::EngineModel;
pub use report::{Beside, Report, Spread};
pub use run::{Setup, simulate};
pub use trace::{Arrival, Reading, TraceError, parse};

#[cfg(test)]
mod tests;
