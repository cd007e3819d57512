//! Route policies: the JSON that people write, checked and compiled to what the filter evaluates.
//!
//! | module | what |
//! |---|---|
//! | `raw` | the document as it is written |
//! | `resolve`, `disaggregation` | one policy of it |
//! | `compile` | raw to [`kv_routing::policy::document::RuleSet`], or every problem with its JSON pointer |
//! | `reach` | rules that can never match |
//! | `doubts` | settings without effect, or with an odd one |
//! | `expression` | cost expressions (CEL syntax) to checked programs |
//! | `desk` | which documents are in force, and which were |
//! | `office` | the desk shared: published on every change, fed by a watched file |
//! | `tally` | how a shadow does beside the document in force |
//! | `problem` | what is wrong, where, and how bad |

mod compile;
mod desk;
mod disaggregation;
mod doubts;
pub mod expression;
mod office;
#[cfg(test)]
mod page_tests;
mod problem;
mod raw;
mod reach;
mod resolve;
mod tally;
#[cfg(test)]
mod tests;

pub use compile::{Compiled, Surroundings, compile};
pub use desk::{Desk, Entry, HISTORY, RollbackError, ShadowEntry};
pub use office::{FileState, PolicyOffice};
pub use problem::{Problem, Refused, Severity};
pub use tally::{ShadowTally, TallySummary};
