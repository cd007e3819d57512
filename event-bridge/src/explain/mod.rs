//! What the filter would do with a request now, from the bridge's own state and by the filter's code.
//!
//! ```text
//! question ─▶ pool by model ─▶ policy ─▶ tokens and hashes ─▶ (the pool looks its chain up) ─▶ route ─▶ answer
//! ```
//!
//! What only a VM knows is not in it: where an Envoy remembers a session to be, so that every session is a new one here; prompts that it
//! routed a moment ago, and blocks that its requests under way share with this one; whose turn it is; the filter's own configuration,
//! which is the policy while there is no document; the defaults stand in for it.

mod answer;
mod ask;

pub use answer::{Answer, OverlapsOf, TargetRow};
pub use ask::{Asked, ExplainError, Question};
