//! A pool: who its workers are, what they hold, and what Envoys should know of them.
//!
//! One task per pool owns the index and the workers' state; everything reaches it as a message.
//!
//! | file | what |
//! |---|---|
//! | `membership`, `member`, `slots` | workers entering and leaving, in an order that loses no request; pure |
//! | `table`, `view` | target table, and what Envoys should know; pure |
//! | `endpoints` | when the endpoint file is written |
//! | `pages` | which pages each Envoy lacks; pure |
//! | `sources` | where engines say that they publish; pure |
//! | `tokenizer` | compiles the pool's tokenizer |
//! | `warm` | files that carry the state over a restart of the bridge |
//! | `runners` | event streams and probes of the workers |
//! | `state` | the pool's state and what each message does to it |
//! | `task` | the loop |
//! | `message`, `snapshot` | what others ask of it, and what they see |

mod endpoints;
mod engine_checks;
mod member;
mod membership;
#[cfg(test)]
mod membership_tests;
mod message;
mod pages;
#[cfg(test)]
mod pages_tests;
mod proved;
mod runners;
mod slots;
mod snapshot;
mod sources;
mod state;
mod table;
mod task;
mod tokenizer;
mod view;
mod warm;

pub use member::{Leaving, Member, MemberTarget};
pub use message::{PageBatch, PageOutcome, PoolGone, PoolHandle, PoolRequest};
pub use snapshot::{Holding, IndexDump, PoolSnapshot, TokenizerStatus};
pub use state::Counters;
pub use task::PoolTask;
