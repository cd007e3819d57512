//! Candidates with what is believed about them, and with their price.

use super::{Rung, Situation};
use crate::index::Overlap;
use crate::policy::cost::cached_tokens;
use crate::policy::document::{Affinity, LabelRule, Policy};
use crate::policy::program::{Program, Variable, Variables};
use crate::policy::{CostInput, CostParts, CostWeights, CreditedOverlap, TargetLoad, price, trust};
use crate::wire::{SourceState, TargetEntry};

/// Cost of a target whose cost expression has no value; dearer than anything real, and still a number.
const UNDEFINED_COST: f64 = 1e18;

/// How candidates are priced.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Terms<'a> {
    weights: &'a CostWeights,
    cost: Option<&'a Program>,
    affinity: Affinity,
    preferred: &'a [(LabelRule, f64)],
}

impl<'a> Terms<'a> {
    /// The default formula with these weights.
    pub(in crate::policy) fn of(weights: &'a CostWeights) -> Self {
        Self { weights, cost: None, affinity: Affinity::default(), preferred: &[] }
    }

    /// As a policy says.
    pub(in crate::policy) fn of_policy(policy: &'a Policy) -> Self {
        Self {
            weights: &policy.weights,
            cost: policy.cost.as_ref(),
            affinity: policy.affinity,
            preferred: &policy.eligibility.preferred_labels,
        }
    }
}

/// A candidate before it has a price.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Rated<'a> {
    pub(in crate::policy) position: u32,
    pub(in crate::policy) target: &'a TargetEntry,
    pub(in crate::policy) load: TargetLoad,
    pub(in crate::policy) state: SourceState,
    pub(in crate::policy) trust: f64,
}

impl Rated<'_> {
    /// Load in blocks: prefill queued and blocks in use.
    pub(in crate::policy) fn load_blocks(&self, situation: &Situation<'_>) -> f64 {
        self.load.prefill_tokens as f64 / f64::from(situation.block_size.tokens()) + self.load.decode_blocks
    }
}

/// A candidate with its price.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Priced<'a> {
    pub(in crate::policy) position: u32,
    pub(in crate::policy) target: &'a TargetEntry,
    pub(in crate::policy) requests: f64,
    pub(in crate::policy) state: SourceState,
    pub(in crate::policy) overlap: Overlap,
    /// By own recent decisions, not by the index.
    pub(in crate::policy) predicted: bool,
    pub(in crate::policy) cost: CostParts,
    /// Prompt tokens the target need not compute, by credit.
    pub(in crate::policy) cached: f64,
}

/// Looks up load and trust of the targets at `candidates`.
pub(in crate::policy) fn rate<'a>(situation: &Situation<'a>, candidates: &[u32]) -> Vec<Rated<'a>> {
    let rate = |position: u32| {
        let at = position as usize;
        let target = situation.targets.get(at)?;
        let load = situation.loads.get(at).copied().unwrap_or_default();
        let (state, trust) = trust(target, situation.silence, situation.stale_decay_ms, situation.now);
        Some(Rated { position, target, load, state, trust })
    };
    candidates.iter().filter_map(|position| rate(*position)).collect()
}

/// Prices every candidate by what `rung` lets it believe.
pub(in crate::policy) fn price_all<'a>(
    situation: &Situation<'_>,
    terms: &Terms<'_>,
    rung: Rung,
    rated: Vec<Rated<'a>>,
) -> Vec<Priced<'a>> {
    let min_prefill_tokens = rated.iter().map(|rated| rated.load.prefill_tokens).min().unwrap_or(0);
    let least = rated.iter().map(|rated| rated.load_blocks(situation)).fold(f64::INFINITY, f64::min);
    let price_one = |rated: Rated<'a>| {
        let followed = terms.affinity.allows(rated.load_blocks(situation), least);
        let belief = if followed { believed(situation, rung, &rated) } else { Belief::default() };
        let input = input(situation, &rated, min_prefill_tokens, &belief);
        let Belief { overlap, coming, .. } = belief;
        let mut cost = price(terms.weights, &input);
        if let Some(program) = terms.cost {
            let variables = variables(terms.weights, &input, &cost, &rated, overlap);
            cost.total = program.eval(&variables).unwrap_or(UNDEFINED_COST);
        }
        cost.total *= preference(terms.preferred, rated.target);
        let cached = cached_tokens(terms.weights, &input);
        let Rated { position, target, load, state, .. } = rated;
        Priced { position, target, requests: load.requests, state, overlap, predicted: coming > 0, cost, cached }
    };
    rated.into_iter().map(price_one).collect()
}

/// What a target is believed to hold.
#[derive(Clone, Copy, Default)]
struct Belief {
    overlap: Overlap,
    /// It counts with this.
    factor: f64,
    /// Blocks of it that recent decisions promise beyond the index.
    coming: u32,
}

/// What the index says of a target, unless more was sent there lately than it says.
fn believed(situation: &Situation<'_>, rung: Rung, rated: &Rated<'_>) -> Belief {
    if matches!(rung, Rung::PrefixHash | Rung::Load) {
        return Belief::default();
    }
    let slot = rated.target.slot;
    let (known, predicted) = (situation.overlaps.get(slot), situation.predicted.get(slot));
    let (known, trust) = if rated.trust > 0.0 { (known, rated.trust) } else { (Overlap::default(), 0.0) };
    match predicted.total().checked_sub(known.total()) {
        Some(coming) if coming > 0 => Belief { overlap: predicted, factor: 1.0, coming },
        _ => Belief { overlap: known, factor: trust, coming: 0 },
    }
}

fn input(situation: &Situation<'_>, rated: &Rated<'_>, min_prefill_tokens: u64, belief: &Belief) -> CostInput {
    let Belief { overlap, factor, coming } = *belief;
    // A prefix on its way is part of the prefill queued there and of the blocks in use: it is not in the prompt's way, and
    // its blocks are not used twice.
    let queued = rated.load.prefill_tokens.checked_sub(u64::from(coming) * u64::from(situation.block_size.tokens()));
    let on_its_way = if coming > 0 && queued.is_some() { overlap.total() } else { 0 };
    let shared = rated.load.shared_blocks.max(on_its_way);
    let blocks = situation.prompt_tokens.div_ceil(situation.block_size.tokens());
    CostInput {
        prompt_tokens: situation.prompt_tokens,
        block_size: situation.block_size,
        prefill_tokens: queued.unwrap_or(0),
        min_prefill_tokens,
        decode_blocks: rated.load.decode_blocks,
        new_decode_blocks: f64::from(blocks.saturating_sub(shared)),
        requests: rated.load.requests,
        overlap: CreditedOverlap::new(overlap, factor),
    }
}

impl Affinity {
    /// Whether a target with `load` blocks may be followed for its cache when the least loaded one has `least`.
    fn allows(&self, load: f64, least: f64) -> bool {
        // A ratio to an idle target means nothing: one block stands for none.
        self.max_excess_blocks.is_none_or(|most| load - least <= most)
            && self.max_load_ratio.is_none_or(|most| load.max(1.0) <= most * least.max(1.0))
    }
}

/// Factor on the cost of a target with preferred labels, between about 0.37 and 2.7: `exp(-tanh(sum of weights))`.
fn preference(preferred: &[(LabelRule, f64)], target: &TargetEntry) -> f64 {
    let sum: f64 = preferred.iter().filter(|(rule, _)| rule.holds(&target.labels)).map(|(_, weight)| weight).sum();
    if sum == 0.0 { 1.0 } else { (-sum.tanh()).exp() }
}

fn variables(
    weights: &CostWeights,
    input: &CostInput,
    cost: &CostParts,
    rated: &Rated<'_>,
    overlap: Overlap,
) -> Variables {
    let block = f64::from(input.block_size.tokens());
    let prompt_blocks = f64::from(input.prompt_tokens.div_ceil(input.block_size.tokens()));
    // Priced again with scale 1, so that an expression can weigh prefill itself, also when the policy's scale is 0.
    let unscaled = price(&CostWeights { prefill_scale: 1.0, ..*weights }, input).prefill;
    let mut values = Variables::default();
    for (variable, value) in [
        (Variable::PromptTokens, f64::from(input.prompt_tokens)),
        (Variable::PromptBlocks, prompt_blocks),
        (Variable::BlockSize, block),
        (Variable::DeviceBlocks, f64::from(overlap.device)),
        (Variable::HostBlocks, f64::from(overlap.host)),
        (Variable::DiskBlocks, f64::from(overlap.disk)),
        (Variable::CachedBlocks, f64::from(overlap.total())),
        (Variable::CreditBlocks, cost.credit),
        (Variable::PrefillBlocks, unscaled),
        (Variable::UncachedBlocks, (prompt_blocks - f64::from(overlap.total())).max(0.0)),
        (Variable::QueuedPrefillBlocks, input.prefill_tokens as f64 / block),
        (Variable::DecodeBlocks, cost.decode),
        (Variable::ActiveRequests, input.requests),
        (Variable::Running, f64::from(rated.target.running)),
        (Variable::Waiting, f64::from(rated.target.waiting)),
        (Variable::KvUsage, f64::from(rated.target.kv_usage)),
        (Variable::CapacityBlocks, rated.target.capacity_blocks as f64),
        (Variable::PrefillScale, weights.prefill_scale),
        (Variable::RequestWeight, weights.request_weight),
        (Variable::DefaultCost, cost.total),
    ] {
        values.set(variable, value);
    }
    values
}
