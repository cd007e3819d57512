//! Who serves a request: eligibility, load, cost, pick, and the ladder of fallbacks when KV state is missing.
//!
//! Everything here is a function of its arguments. Time and random numbers are arguments too, so that one seed always
//! gives one decision, in tests, in the filter and in a simulation.
//!
//! | module | what |
//! |---|---|
//! | `weights` | weights of the cost formula with their defaults and ranges |
//! | `cost` | the formula, for one target |
//! | `trust` | what a target's source state makes of its overlap |
//! | `eligible` | which targets may be chosen at all |
//! | `load`, `outside` | bookings of all VMs and engine-reported load, without counting a request twice |
//! | `ledger` | what this VM has booked; shared prompt blocks count once |
//! | `rank` | the one sort |
//! | `pick` | cheapest or softmax, ties uniform |
//! | `prefix_hash` | bounded-load hashing when there is nothing better |
//! | `estimate` | what is known of a prompt that is not tokenized |
//! | `recent` | prompts routed lately, counted as held until events tell |
//! | `decide` | the ladder: one decision from everything above |
//! | `route` | a request through its policy: modes, thresholds, overload |
//! | `split` | prefill and decode on different targets |
//! | `session` | where sessions were served last |
//! | `explain` | a decision in one line of JSON |
//! | `document` | the compiled policy document: rules, policies, shadow |
//! | `program` | cost expressions as the filter runs them |

mod cost;
mod decide;
pub mod document;
mod eligible;
mod estimate;
mod explain;
mod ledger;
mod load;
mod outside;
mod pick;
mod prefix_hash;
pub mod program;
mod rank;
mod recent;
mod rng;
mod route;
pub mod session;
mod split;
mod trust;
mod weights;

pub use cost::{CostInput, CostParts, CreditedOverlap, price};
pub use decide::{Choice, Ladder, NoTarget, Other, Rung, Situation, decide};
pub use eligible::{Phase, eligible};
pub use estimate::estimate;
pub use explain::{CostShown, Explanation, HandoffShown, OverlapShown, RunnerUp, TRACE_TOKENS, Timings, Trace};
pub use ledger::{BookingId, BookingRequest, CHECKPOINT_BLOCKS, Checkpoints, Ledger};
pub use load::{Bookings, TargetLoad};
pub use outside::{OutsideLoad, PEAK_WINDOW_MS, Peaks};
pub use pick::{Pick, pick};
pub use prefix_hash::{PREFIX_TOKENS, bounded_order, prefix_key};
pub use recent::{RecentId, RecentPrompts, predicted};
pub use rng::{Rng, SplitMix64};
pub use route::{Hints, LeftOut, Outcome, PassReason, Refusal, Weighed, route, weigh};
pub use split::{Plan, Whole, plan, serves_whole};
pub use trust::{BridgeSilence, trust};
pub use weights::{CostWeights, WeightError};
