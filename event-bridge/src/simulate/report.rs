//! What came out of a simulation.

use kv_routing::policy::Outcome;
use serde::Serialize;

use super::engine::Engine;
use super::trace::{Arrival, BLOCK_TOKENS};

/// Figures of one simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests that were served.
    pub served: u64,
    /// Requests that the policy refused.
    pub refused: u64,
    /// Share of prompt tokens that engines did not have to compute.
    pub hit_rate: f64,
    /// Time to first token, in milliseconds.
    pub ttft_ms: Spread,
    /// Time from arrival to the beginning of prefill, in milliseconds.
    pub queued_ms: Spread,
    /// Most requests at once of any engine whose prefill had not begun.
    pub longest_queue: usize,
    /// Standard deviation of requests per engine, over their mean.
    pub load_variation: f64,
    /// How the shadow did, when there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Beside>,
    #[serde(skip)]
    waits_us: Vec<u64>,
}

/// A shadow beside the policies at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Beside {
    /// Share of requests it would have sent to the same engine, or left or refused as well.
    pub agreement: f64,
    /// Share of prompt tokens held, as each request arrived, by the engine it would have chosen.
    pub hit_rate: f64,
    #[serde(skip)]
    requests: u64,
    #[serde(skip)]
    agreed: u64,
    #[serde(skip)]
    blocks: u64,
}

/// Distribution of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Report {
    pub(super) fn first_token(&mut self, after_us: u64) {
        self.waits_us.push(after_us);
    }

    pub(super) fn beside(&mut self, live: &Outcome, imagined: &Outcome) {
        let beside = self.shadow.get_or_insert_default();
        beside.requests += 1;
        beside.agreed += u64::from(match (live, imagined) {
            (Outcome::Chosen(live), Outcome::Chosen(imagined)) => live.target == imagined.target,
            (live, imagined) => live == imagined,
        });
        if let Outcome::Chosen(choice) = imagined {
            beside.blocks += u64::from(choice.overlap.total());
        }
    }

    pub(super) fn finish(&mut self, arrivals: &[Arrival], engines: &[Engine]) {
        self.served = self.waits_us.len() as u64;
        let prompt: u64 = arrivals.iter().map(|arrival| u64::from(arrival.prompt_tokens)).sum();
        let cached: u64 = engines.iter().map(|engine| engine.cached_tokens).sum();
        self.hit_rate = cached as f64 / prompt.max(1) as f64;
        if let Some(beside) = &mut self.shadow {
            beside.agreement = beside.agreed as f64 / beside.requests.max(1) as f64;
            beside.hit_rate = (beside.blocks * u64::from(BLOCK_TOKENS)) as f64 / prompt.max(1) as f64;
        }
        self.longest_queue = engines.iter().map(|engine| engine.longest_queue).max().unwrap_or(0);
        self.load_variation = variation(engines.iter().map(|engine| engine.requests as f64));
        let mut queued: Vec<u64> = engines.iter().flat_map(|engine| engine.queued_us.iter().copied()).collect();
        queued.sort_unstable();
        self.queued_ms = Spread::of(&queued);
        self.waits_us.sort_unstable();
        self.ttft_ms = Spread::of(&self.waits_us);
    }
}

impl Spread {
    /// Of ascending microseconds, in milliseconds.
    fn of(sorted_us: &[u64]) -> Self {
        let milliseconds = |us: u64| us as f64 / 1000.0;
        let last = sorted_us.len().saturating_sub(1);
        let at = |share: f64| sorted_us.get((last as f64 * share).round() as usize).copied().map_or(0.0, milliseconds);
        let sum: u64 = sorted_us.iter().sum();
        Self { mean: milliseconds(sum) / sorted_us.len().max(1) as f64, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

fn variation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}
