//! The cost of sending one prompt to one target, in blocks; the lowest wins.
//!
//! Dynamo's default formula. For a prompt of `L` tokens in `n = ceil(L / B)` blocks of `B` tokens, and a target with `P`
//! tokens of prefill queued, `D` decode blocks after this request joins, and `N` active requests:
//!
//! ```text
//! C    = (c*device + h*host + k*disk + s*shared) * B          cached tokens, by credit
//! R    = (P + max(L - C, 0) + C) / B                          prefill with nothing reused, in blocks
//! x    = ((P - min P) / B) / n                                prefill queued beyond the least loaded target
//! f    = 1 / (1 + g*x)
//! K    = c*f*device + h*host + k*disk + s*shared              credit; only that of device memory fades
//! cost = a * max(0, R - K) + D + r*N
//! ```
//!
//! While `C <= L`, `R` is simply `(P + L) / B`; a device credit above 1 may push `C` beyond.

use super::CostWeights;
use crate::block::BlockSize;
use crate::index::Overlap;

/// Leading blocks of the prompt a target holds, scaled by the trust in its source. Every tier counts only its extension.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreditedOverlap {
    /// In device memory.
    pub device: f64,
    /// Further in host memory.
    pub host: f64,
    /// Further on disk.
    pub disk: f64,
    /// Further in a cache that all targets share.
    pub shared: f64,
}

impl CreditedOverlap {
    /// `overlap`, each tier scaled by `trust` (0 to 1).
    pub fn new(overlap: Overlap, trust: f64) -> Self {
        let scaled = |blocks: u32| f64::from(blocks) * trust;
        Self { device: scaled(overlap.device), host: scaled(overlap.host), disk: scaled(overlap.disk), shared: 0.0 }
    }
}

/// What the formula sees of one target.
#[derive(Clone, Copy, Debug)]
pub struct CostInput {
    /// `L`, tokens of the prompt.
    pub prompt_tokens: u32,
    /// `B`.
    pub block_size: BlockSize,
    /// `P`, prompt tokens queued on this target and not yet prefilled.
    pub prefill_tokens: u64,
    /// The smallest `P` among the targets compared.
    pub min_prefill_tokens: u64,
    /// Decode blocks active on this target.
    pub decode_blocks: f64,
    /// Decode blocks this request would add; `D` is the sum of both.
    pub new_decode_blocks: f64,
    /// `N`, active requests on this target.
    pub requests: f64,
    /// What the target holds of the prompt.
    pub overlap: CreditedOverlap,
}

/// A cost and what it is made of, all in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostParts {
    /// `a * max(0, R - K)`.
    pub prefill: f64,
    /// `K`; already taken off `prefill`.
    pub credit: f64,
    /// `D`.
    pub decode: f64,
    /// `r * N`.
    pub requests: f64,
    /// Sum of prefill, decode and requests.
    pub total: f64,
}

/// Prompt tokens `overlap` saves, by credit, at most the prompt's own.
pub(super) fn cached_tokens(weights: &CostWeights, input: &CostInput) -> f64 {
    weights.undecayed(input.overlap) * f64::from(input.block_size.tokens())
}

impl CostWeights {
    fn undecayed(&self, overlap: CreditedOverlap) -> f64 {
        self.device_credit * overlap.device + self.lower_tiers(overlap)
    }

    fn lower_tiers(&self, overlap: CreditedOverlap) -> f64 {
        self.host_credit * overlap.host + self.disk_credit * overlap.disk + self.shared_credit * overlap.shared
    }
}

/// Prices one target.
pub fn price(weights: &CostWeights, input: &CostInput) -> CostParts {
    let block = f64::from(input.block_size.tokens());
    let prompt = f64::from(input.prompt_tokens);
    let cached = cached_tokens(weights, input);
    let raw = (input.prefill_tokens as f64 + (prompt - cached).max(0.0) + cached) / block;
    let excess = input.prefill_tokens.saturating_sub(input.min_prefill_tokens) as f64 / block;
    let prompt_blocks = f64::from(input.prompt_tokens.div_ceil(input.block_size.tokens()).max(1));
    let fade = 1.0 / (1.0 + weights.credit_decay * excess / prompt_blocks);
    let credit = weights.device_credit * fade * input.overlap.device + weights.lower_tiers(input.overlap);
    let prefill = weights.prefill_scale * (raw - credit).max(0.0);
    let decode = input.decode_blocks + input.new_decode_blocks;
    let requests = weights.request_weight * input.requests;
    CostParts { prefill, credit, decode, requests, total: prefill + decode + requests }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::policy::{Rng, SplitMix64};

    /// The formula once more, symbol by symbol as it is published, with nothing shared with the code above.
    #[allow(clippy::many_single_char_names, clippy::too_many_arguments)]
    pub(in crate::policy) fn transcription(
        (c, g, a, h, k, s, r): (f64, f64, f64, f64, f64, f64, f64),
        (l, b, p, min_p, d, n_w): (f64, f64, f64, f64, f64, f64),
        (dev, host, disk, shared): (f64, f64, f64, f64),
    ) -> f64 {
        let n = (l / b).ceil();
        let c_w = (c * dev + h * host + k * disk + s * shared) * b;
        let r_w = (p + f64::max(l - c_w, 0.0) + c_w) / b;
        let x_w = ((p - min_p) / b) / n;
        let f_w = 1.0 / (1.0 + g * x_w);
        let k_w = c * f_w * dev + h * host + k * disk + s * shared;
        let a_w = f64::max(0.0, r_w - k_w);
        a * a_w + d + r * n_w
    }

    /// Weights in the order in which the transcription has them.
    pub(in crate::policy) fn symbols(w: &CostWeights) -> (f64, f64, f64, f64, f64, f64, f64) {
        (
            w.device_credit,
            w.credit_decay,
            w.prefill_scale,
            w.host_credit,
            w.disk_credit,
            w.shared_credit,
            w.request_weight,
        )
    }

    #[test]
    fn equals_a_transcription_of_the_published_formula_on_random_states() {
        let mut rng = SplitMix64::new(1);
        let mut below = |bound: u64| rng.next_u64() % bound;
        for _ in 0..10_000 {
            let weights = CostWeights {
                device_credit: below(200) as f64 / 100.0,
                credit_decay: below(300) as f64 / 100.0,
                prefill_scale: below(300) as f64 / 100.0,
                host_credit: below(101) as f64 / 100.0,
                disk_credit: below(101) as f64 / 100.0,
                shared_credit: below(101) as f64 / 100.0,
                request_weight: below(500) as f64 / 100.0,
                temperature: 0.0,
            };
            let block_size = BlockSize::new([1, 4, 16, 64, 128][below(5) as usize]).unwrap();
            let prompt_tokens = 1 + below(200_000) as u32;
            let prefill_tokens = below(500_000);
            let input = CostInput {
                prompt_tokens,
                block_size,
                prefill_tokens,
                min_prefill_tokens: below(prefill_tokens + 1),
                decode_blocks: below(100_000) as f64,
                new_decode_blocks: below(10_000) as f64,
                requests: below(300) as f64,
                overlap: CreditedOverlap {
                    device: below(10_000) as f64,
                    host: below(1_000) as f64,
                    disk: below(1_000) as f64,
                    shared: below(100) as f64,
                },
            };
            let parts = price(&weights, &input);
            let o = input.overlap;
            let expected = transcription(
                symbols(&weights),
                (
                    f64::from(prompt_tokens),
                    f64::from(block_size.tokens()),
                    prefill_tokens as f64,
                    input.min_prefill_tokens as f64,
                    input.decode_blocks + input.new_decode_blocks,
                    input.requests,
                ),
                (o.device, o.host, o.disk, o.shared),
            );
            assert!((parts.total - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{input:?} {parts:?} {expected}");
            assert!((parts.total - parts.prefill - parts.decode - parts.requests).abs() < 1e-6);
        }
    }

    #[test]
    fn a_worked_example() {
        let input = CostInput {
            prompt_tokens: 1000,
            block_size: BlockSize::new(16).unwrap(),
            prefill_tokens: 160,
            min_prefill_tokens: 0,
            decode_blocks: 20.0,
            new_decode_blocks: 63.0,
            requests: 2.0,
            overlap: CreditedOverlap::new(Overlap { device: 40, host: 8, disk: 4 }, 1.0),
        };
        let parts = price(&CostWeights::default(), &input);
        assert_eq!(parts.credit, 40.0 + 6.0 + 1.0);
        assert_eq!(parts.prefill, 72.5 - 47.0);
        assert_eq!(parts.total, 25.5 + 83.0);
    }
}
