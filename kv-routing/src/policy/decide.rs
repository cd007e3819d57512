//! One routing decision, down the ladder of what is known.
//!
//! ```text
//! exact      a target's KV state can be trusted: overlap from the index, or more by recent decisions
//!   |        no state of any eligible target can be trusted
//! predicted  overlap from recent decisions alone
//!   |        none matches
//! prefix     bounded-load prefix hash, over tokens or over text
//!   |        not even a prefix is known, or the prompt has no full block
//! load       least cost by load alone
//!   |        no target may be chosen
//! (Envoy)    the caller leaves the request to Envoy's own load balancer
//! ```

mod choice;
mod price;

pub(super) use choice::choice;
pub(super) use price::{Priced, Rated, Terms, price_all, rate};

use thiserror::Error;

use super::{BridgeSilence, CostParts, CostWeights, Phase, Rng, TargetLoad, bounded_order, eligible, pick};
use crate::block::BlockSize;
use crate::index::{Overlap, Overlaps};
use crate::wire::{SourceState, TargetEntry, UnixMillis};

/// Settings of a decision; a route policy resolves to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ladder {
    /// Weights and temperature.
    pub weights: CostWeights,
    /// Most endpoints named, the chosen one included; at least 1.
    pub endpoints: u8,
    /// How far above the mean a target may be loaded before a prefix hash passes it over; at least 1.
    pub load_factor: f64,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { weights: CostWeights::default(), endpoints: 3, load_factor: 1.25 }
    }
}

/// Everything one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Target table of the pool.
    pub targets: &'a [TargetEntry],
    /// Load of each target, in the same order.
    pub loads: &'a [TargetLoad],
    /// What the target is wanted for.
    pub phase: Phase,
    /// Prompt tokens; an estimate where they could not be counted.
    pub prompt_tokens: u32,
    /// Tokens per block.
    pub block_size: BlockSize,
    /// Overlap of the prompt by the index.
    pub overlaps: &'a Overlaps,
    /// Overlap by recent decisions (see [`super::predicted`]): counts where the index does not say as much.
    pub predicted: &'a Overlaps,
    /// Key of the prompt's prefix (see [`super::prefix_key`]).
    pub prefix: Option<u64>,
    /// Whether the prompt has a chain that overlaps could be looked up by.
    pub has_chain: bool,
    /// The bridge is silent since.
    pub silence: Option<BridgeSilence>,
    /// Time over which a stale source's credit falls to nothing; 0: never.
    pub stale_decay_ms: u32,
    /// Current time.
    pub now: UnixMillis,
}

/// What a decision was based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// Overlap from the index.
    Exact,
    /// Overlap from recent decisions.
    Predicted,
    /// Bounded-load prefix hash.
    PrefixHash,
    /// Load alone.
    Load,
    /// Not by the ladder: the policy's mode says how.
    Mode,
}

impl Rung {
    /// Word used in explanations and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Predicted => "predicted",
            Self::PrefixHash => "prefix_hash",
            Self::Load => "load",
            Self::Mode => "mode",
        }
    }
}

/// A decision. Targets are named by their position in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The chosen target.
    pub target: u32,
    /// Targets of the endpoints to name, the chosen one first; every endpoint once.
    pub order: Vec<u32>,
    /// What it was based on.
    pub rung: Rung,
    /// State of the chosen target's source.
    pub state: SourceState,
    /// Overlap believed on the chosen target; zero where it counted for nothing.
    pub overlap: Overlap,
    /// Its cost.
    pub cost: CostParts,
    /// Next best target and its cost.
    pub runner_up: Option<(u32, f64)>,
    /// Prompt tokens the chosen target has to compute, by credit.
    pub prefill_tokens: u64,
    /// The targets of `order` after the first.
    pub others: Vec<Other>,
}

/// What is believed of a target that was not chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Other {
    /// The target.
    pub target: u32,
    /// What a decision for it would have been based on.
    pub rung: Rung,
    /// State of its source.
    pub state: SourceState,
    /// Overlap believed on it.
    pub overlap: Overlap,
    /// Its cost.
    pub cost: CostParts,
    /// Prompt tokens it has to compute, by credit.
    pub prefill_tokens: u64,
}

impl Choice {
    /// Makes it the decision for the next target of the order; false when there is none.
    #[must_use]
    pub fn take_next(&mut self) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let Other { target, rung, state, overlap, cost, prefill_tokens } = self.others.remove(0);
        self.order.retain(|at| *at != self.target);
        (self.target, self.rung, self.state, self.runner_up) = (target, rung, state, None);
        (self.overlap, self.cost, self.prefill_tokens) = (overlap, cost, prefill_tokens);
        true
    }

    /// Leaves only those of the other targets for which `may` is true.
    pub(super) fn retain(&mut self, may: impl Fn(u32) -> bool) {
        self.others.retain(|other| may(other.target));
        self.order.retain(|at| *at == self.target || may(*at));
    }
}

/// No target may be chosen.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("none of {targets} targets may be chosen: all are unhealthy, or none has the role")]
pub struct NoTarget {
    /// Size of the target table.
    pub targets: u32,
}

/// Chooses a target.
///
/// # Errors
/// [`NoTarget`] when the request should be left to Envoy's load balancer.
pub fn decide(situation: &Situation<'_>, ladder: &Ladder, rng: &mut impl Rng) -> Result<Choice, NoTarget> {
    let rated = rate(situation, &eligible(situation.targets, situation.phase));
    descend(situation, ladder, &Terms::of(&ladder.weights), rated, rng)
}

/// Takes the first rung that what is known allows, among `rated` targets.
pub(super) fn descend(
    situation: &Situation<'_>,
    ladder: &Ladder,
    terms: &Terms<'_>,
    rated: Vec<Rated<'_>>,
    rng: &mut impl Rng,
) -> Result<Choice, NoTarget> {
    let rung = rung(situation, &rated);
    let priced = price_all(situation, terms, rung, rated);
    let order = match (rung, situation.prefix) {
        (Rung::PrefixHash, Some(key)) => {
            let loads: Vec<_> = priced.iter().map(|priced| (priced.target.id, priced.requests)).collect();
            bounded_order(key, &loads, ladder.load_factor)
        }
        _ => {
            let costs: Vec<f64> = priced.iter().map(|priced| priced.cost.total).collect();
            pick(&costs, ladder.weights.temperature, rng).order
        }
    };
    choice(situation, ladder.endpoints, rung, &priced, &order)
        .ok_or(NoTarget { targets: u32::try_from(situation.targets.len()).unwrap_or(u32::MAX) })
}

/// The rung that what is known of `rated` targets allows.
pub(super) fn rung(situation: &Situation<'_>, rated: &[Rated<'_>]) -> Rung {
    let predicted = || rated.iter().any(|rated| situation.predicted.get(rated.target.slot).total() > 0);
    if situation.has_chain && rated.iter().any(|rated| rated.trust > 0.0) {
        Rung::Exact
    } else if situation.has_chain && predicted() {
        Rung::Predicted
    } else if situation.prefix.is_some() {
        Rung::PrefixHash
    } else {
        Rung::Load
    }
}

#[cfg(test)]
mod tests;
