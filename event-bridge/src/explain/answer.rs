//! From a question and what the index says to an answer.

use std::time::Instant;

use kv_routing::index::Overlaps;
use kv_routing::policy::document::Mode;
use kv_routing::policy::{
    Bookings, Checkpoints, CostShown, Explanation, Hints, Ledger, Outcome, OverlapShown, Peaks, Phase, Situation,
    SplitMix64, TargetLoad, Weighed, route, weigh,
};
use kv_routing::wire::{LoadRow, TargetEntry};
use serde::Serialize;

use super::ask::{Asked, header, micros};

/// What the index says of a chain, and how long that took.
#[derive(Clone, Debug)]
pub struct OverlapsOf {
    /// Overlap by slot.
    pub overlaps: Overlaps,
    /// Microseconds.
    pub took_us: u32,
}

/// What the filter would do.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// `chosen`, `pass` (left to Envoy) or `refused`.
    pub outcome: &'static str,
    /// Why it is left to Envoy, or what the client is told.
    pub reason: Option<String>,
    /// Status of a refusal.
    pub status: Option<u16>,
    /// Policy.
    pub policy: String,
    /// Its mode.
    pub mode: &'static str,
    /// Rule that chose the policy.
    pub rule: String,
    /// Model or adapter.
    pub model: String,
    /// Pool.
    pub pool: String,
    /// Prompt tokens.
    pub tokens: u32,
    /// Why that is an estimate, when it is.
    pub estimated: Option<String>,
    /// Tokens per block.
    pub block_size: u32,
    /// Full blocks of the prompt.
    pub blocks: usize,
    /// The decision as the access log has it, when a target is chosen.
    pub decision: Option<serde_json::Value>,
    /// Every target of the pool: those named, in their order, then the others by cost, then those left out.
    pub targets: Vec<TargetRow>,
}

/// One target.
#[derive(Debug, Serialize)]
pub struct TargetRow {
    /// `ip:port`.
    pub target: String,
    /// Data-parallel rank.
    pub rank: Option<u32>,
    /// 1 for the chosen one, then its fallbacks.
    pub place: Option<usize>,
    /// Why it cannot be chosen, when it cannot: `unfit`, `state` or `busy`.
    pub left_out: Option<&'static str>,
    /// Whether probes reach it.
    pub health: &'static str,
    /// State of its KV source.
    pub state: &'static str,
    /// Factor its overlap counts with.
    pub trust: f64,
    /// Leading blocks it holds.
    pub overlap: OverlapShown,
    /// Active requests.
    pub requests: f64,
    /// Queued prompt tokens.
    pub prefill_tokens: u64,
    /// Blocks in use.
    pub decode_blocks: f64,
    /// Cost in blocks.
    pub cost: Option<CostShown>,
}

impl Asked {
    /// Decides as an Envoy with these load rows would. `seed` decides between equals.
    pub fn decide(mut self, index: &OverlapsOf, load_rows: &[(u32, LoadRow)], seed: u64) -> Answer {
        self.timings.lookup = index.took_us;
        let began = Instant::now();
        let targets = &self.table.targets;
        let mut bookings = Bookings::default();
        load_rows.iter().for_each(|(_, row)| bookings.add(row));
        let checkpoints = Checkpoints::of(&self.prompt.chain);
        let loads =
            TargetLoad::of_all(targets, &Ledger::default(), &bookings, &mut Peaks::default(), &checkpoints, self.now);
        let predicted = Overlaps::default();
        let situation = Situation {
            targets,
            loads: &loads,
            phase: Phase::Whole,
            prompt_tokens: self.prompt.tokens,
            block_size: self.prompt.block_size,
            overlaps: &index.overlaps,
            predicted: &predicted,
            prefix: self.prompt.prefix,
            has_chain: !self.prompt.chain.is_empty(),
            silence: None,
            stale_decay_ms: self.pool.manifest.stale_decay_ms,
            now: self.now,
        };
        let direct = match &self.policy.mode {
            Mode::Direct { header: name } => header(&self.headers, name),
            _ => None,
        };
        let hints = Hints { direct: direct.as_deref(), turn: seed as u32, ..Hints::default() };
        let outcome = route(&situation, &self.policy, &hints, &mut SplitMix64::new(seed));
        self.timings.pick = micros(began);
        let rows = rows(&situation, &weigh(&situation, &self.policy), &outcome);
        self.answer(&outcome, rows)
    }

    fn answer(&self, outcome: &Outcome, targets: Vec<TargetRow>) -> Answer {
        let (word, reason, status, decision) = match outcome {
            Outcome::Chosen(choice) => {
                let explanation = Explanation {
                    pool: &self.pool.manifest.name,
                    policy: &self.policy.name,
                    rule: &self.rule,
                    tokens: self.prompt.tokens,
                    blocks: u32::try_from(self.prompt.chain.len()).unwrap_or(u32::MAX),
                    us: self.timings,
                    ..Explanation::of(choice, &self.table.targets)
                };
                ("chosen", None, None, serde_json::to_value(&explanation).ok())
            }
            Outcome::Pass(reason) => ("pass", Some(reason.as_str().to_owned()), None, None),
            Outcome::Refused(refusal) => ("refused", Some(refusal.message.clone()), Some(refusal.status), None),
        };
        Answer {
            outcome: word,
            reason,
            status,
            policy: self.policy.name.clone(),
            mode: self.policy.mode.as_str(),
            rule: self.rule.clone(),
            model: self.model.clone(),
            pool: self.pool.manifest.name.clone(),
            tokens: self.prompt.tokens,
            estimated: self.prompt.estimated.clone(),
            block_size: self.prompt.block_size.tokens(),
            blocks: self.prompt.chain.len(),
            decision,
            targets,
        }
    }
}

/// The named ones in their order, then the others by cost, then those left out.
fn rows(situation: &Situation<'_>, weighed: &[Weighed], outcome: &Outcome) -> Vec<TargetRow> {
    let order: &[u32] = match outcome {
        Outcome::Chosen(choice) => &choice.order,
        Outcome::Pass(_) | Outcome::Refused(_) => &[],
    };
    let place = |position: u32| order.iter().position(|named| *named == position).map(|at| at + 1);
    let mut rows: Vec<TargetRow> = (0..)
        .zip(situation.targets.iter().zip(weighed))
        .map(|(position, (target, weighed))| row(target, weighed, place(position)))
        .collect();
    let cost = |row: &TargetRow| row.cost.map_or(f64::INFINITY, |cost| cost.total);
    rows.sort_by(|one, other| {
        let place = |row: &TargetRow| row.place.unwrap_or(usize::MAX);
        place(one).cmp(&place(other)).then(cost(one).total_cmp(&cost(other)))
    });
    rows
}

fn row(target: &TargetEntry, weighed: &Weighed, place: Option<usize>) -> TargetRow {
    TargetRow {
        target: target.endpoint.clone(),
        rank: target.rank,
        place,
        left_out: weighed.cost.err().map(|why| why.as_str()),
        health: target.health.as_str(),
        state: weighed.state.as_str(),
        trust: weighed.trust,
        overlap: weighed.overlap.into(),
        requests: weighed.load.requests,
        prefill_tokens: weighed.load.prefill_tokens,
        decode_blocks: weighed.load.decode_blocks,
        cost: weighed.cost.ok().map(CostShown::from),
    }
}
