//! How a shadow does beside the document in force, by the decisions that Envoys report.
//!
//! Only requests that were routed are reported, so what is compared is: of those, how many would the shadow have sent to the same
//! target, what was and what would have been found cached there, and how the requests would have spread. A shadow is
//! evaluated against the caches and the load that the document in force has made; what it would make of them itself is not known
//! (`docs/POLICY.md` tells by how much that may be off).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kv_routing::target::TargetId;
use kv_routing::wire::Decision;
use serde::Serialize;

/// Counts of one shadow beside one document. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ShadowTally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    version: u64,
    requests: u64,
    agreed: u64,
    prompt_tokens: u64,
    live: Side,
    shadow: Side,
}

#[derive(Debug, Default)]
struct Side {
    tokens: u64,
    requests: BTreeMap<TargetId, u64>,
}

impl Side {
    fn note(&mut self, target: Option<TargetId>, tokens: u64) {
        self.tokens += tokens;
        if let Some(target) = target {
            *self.requests.entry(target).or_default() += 1;
        }
    }
}

/// What came of a shadow so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TallySummary {
    /// Routed requests it looked at.
    pub requests: u64,
    /// Those it would have sent to the same target.
    pub agreed: u64,
    /// `agreed` over `requests`; 1 before there are any.
    pub agreement: f64,
    /// Prompt tokens of those requests.
    pub prompt_tokens: u64,
    /// Tokens believed to be cached where they were sent.
    pub live_hit_tokens: u64,
    /// Tokens believed to be cached where the shadow would have sent them.
    pub shadow_hit_tokens: u64,
    /// Their share of the prompt tokens.
    pub live_hit_rate: f64,
    /// Their share of the prompt tokens.
    pub shadow_hit_rate: f64,
    /// Standard deviation of the requests per target over their mean.
    pub live_load_variation: f64,
    /// The same, had the shadow decided.
    pub shadow_load_variation: f64,
}

impl ShadowTally {
    fn locked<T>(&self, look: impl FnOnce(&mut Counts) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins anew: document `version` has another pair to compare.
    pub fn restart(&self, version: u64) {
        self.locked(|counts| *counts = Counts { version, ..Counts::default() });
    }

    /// Counts a decision in a pool with blocks of `block_tokens` tokens, if the shadow of the current document looked at it.
    pub fn note(&self, decision: &Decision, block_tokens: u32) {
        let Some(imagined) = decision.shadow else { return };
        self.locked(|counts| {
            if imagined.version != counts.version {
                return;
            }
            let tokens = |blocks: u32| u64::from(blocks) * u64::from(block_tokens);
            counts.requests += 1;
            counts.agreed += u64::from(imagined.target == Some(decision.target));
            counts.prompt_tokens += u64::from(decision.prompt_tokens);
            counts.live.note(Some(decision.target), tokens(decision.predicted_blocks));
            counts.shadow.note(imagined.target, tokens(imagined.predicted_blocks));
        });
    }

    /// What came of it so far; `targets` are all that could have been chosen.
    pub fn summary(&self, targets: &[TargetId]) -> TallySummary {
        self.locked(|counts| {
            let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
            TallySummary {
                requests: counts.requests,
                agreed: counts.agreed,
                agreement: if counts.requests == 0 { 1.0 } else { share(counts.agreed, counts.requests) },
                prompt_tokens: counts.prompt_tokens,
                live_hit_tokens: counts.live.tokens,
                shadow_hit_tokens: counts.shadow.tokens,
                live_hit_rate: share(counts.live.tokens, counts.prompt_tokens),
                shadow_hit_rate: share(counts.shadow.tokens, counts.prompt_tokens),
                live_load_variation: variation(&counts.live.requests, targets),
                shadow_load_variation: variation(&counts.shadow.requests, targets),
            }
        })
    }
}

/// Standard deviation over mean of the requests of `targets`, those of targets that are gone left out.
fn variation(requests: &BTreeMap<TargetId, u64>, targets: &[TargetId]) -> f64 {
    let of = |target: &TargetId| requests.get(target).copied().unwrap_or(0) as f64;
    let count = targets.len().max(1) as f64;
    let mean = targets.iter().map(of).sum::<f64>() / count;
    let variance = targets.iter().map(|target| (of(target) - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use kv_routing::wire::{Imagined, PoolId, UnixMillis};

    use super::*;

    fn decision(target: u64, shadow: Option<Imagined>) -> Decision {
        Decision {
            at: UnixMillis(1),
            pool: PoolId(0),
            target: TargetId(target),
            answered: true,
            prompt_tokens: 100,
            predicted_blocks: 5,
            block_size: 16,
            blocks: 6,
            certain_blocks: 0,
            marks: Vec::new(),
            head: Vec::new(),
            seed: 0,
            adapter: false,
            shadow,
        }
    }

    fn imagined(version: u64, target: Option<u64>, predicted_blocks: u32) -> Option<Imagined> {
        Some(Imagined { version, target: target.map(TargetId), predicted_blocks })
    }

    #[test]
    fn agreement_hits_and_spread_of_the_current_pair() {
        let (tally, targets) = (ShadowTally::default(), [TargetId(1), TargetId(2)]);
        tally.restart(7);
        assert_eq!(tally.summary(&targets).agreement, 1.0);
        for (live, shadow) in [
            (1, imagined(7, Some(1), 5)),
            (1, imagined(7, Some(2), 1)),
            (1, imagined(7, None, 0)),
            (1, imagined(7, Some(2), 0)),
            (2, imagined(6, Some(2), 5)),
            (2, None),
        ] {
            tally.note(&decision(live, shadow), 10);
        }
        let summary = tally.summary(&targets);
        assert_eq!((summary.requests, summary.agreed, summary.agreement), (4, 1, 0.25));
        assert_eq!((summary.live_hit_tokens, summary.shadow_hit_tokens), (200, 60));
        assert_eq!((summary.live_hit_rate, summary.shadow_hit_rate), (0.5, 0.15));
        assert_eq!(summary.live_load_variation, 1.0, "one of two targets has everything");
        assert!((summary.shadow_load_variation - 1.0 / 3.0).abs() < 1e-9, "one and two of three");
        tally.restart(8);
        assert_eq!(tally.summary(&targets).requests, 0);
    }
}
