//! Order, gaps and restarts of streams, and events to the prefix index of one pool. No sockets and no clock: stream
//! events and the time come in, actions go out.
//!
//! | module | what |
//! |---|---|
//! | `sequence` | one stream's order: what may be applied, what is held back, when everything known is void |
//! | `residency` | one target's pages and references, and from them its entries in the index |
//! | `parity` | whether prompts that a target answered are among what it announced |
//! | `target` | all of them, and the target's state |
//! | `saved` | one target's state on disk, for a bridge that is started anew |
//! | `bounds` | what all targets together may keep, and who gives up what beyond it |
//! | `pool` | all targets of a pool over one index |

mod bounds;
mod config;
mod parity;
mod pool;
mod report;
mod residency;
mod saved;
mod sequence;
mod target;

#[cfg(test)]
mod tests;

pub use config::{EngineSays, GapPolicy, IngestConfig, ParityPolicy, SourceSpec};
pub use parity::{Cause, Finding, ParityCounts, Vocabulary};
pub use pool::{Action, Ingest};
pub use report::{Parity, Reason, SourceReport};
pub use saved::{Saved, SavedError};
