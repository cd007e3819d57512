//! Disaggregated serving in a policy.

use kv_routing::policy::document::{Disaggregation, DisaggregationMode, OverLimit, Topology};

use super::problem::{Problems, child};
use super::raw::{RawDisaggregation, RawDisaggregationMode, RawOverLimit};
use super::resolve::within;

/// Most retries of a phase.
const MAX_RETRIES: u8 = 8;

/// Longest a prefill call may take: ten minutes.
const MAX_PREFILL_TIMEOUT_MS: u32 = 600_000;

pub(super) fn resolve(raw: Option<&RawDisaggregation>, pointer: &str, problems: &mut Problems) -> Disaggregation {
    let defaults = Disaggregation::default();
    let Some(raw) = raw else {
        return defaults;
    };
    let place = child(pointer, "disaggregation");
    let RawDisaggregation {
        mode,
        aggregated_fallback,
        min_uncached_tokens,
        min_uncached_ratio,
        prefill_busy_tokens,
        prefill_timeout_ms,
        prefill_retries,
        decode_retries,
        topology,
        max_waits,
        max_wait_bytes,
        over_limit,
    } = raw;
    let mut positive = |value: Option<u32>, default: u32, max: u32, field: &str| {
        let value = value.unwrap_or(default);
        if !(1..=max).contains(&value) {
            problems.error(child(&place, field), format!("is {value}, must be from 1 to {max}"));
        }
        value
    };
    let prefill_timeout_ms =
        positive(*prefill_timeout_ms, defaults.prefill_timeout_ms, MAX_PREFILL_TIMEOUT_MS, "prefill_timeout_ms");
    let max_waits = positive(*max_waits, defaults.max_waits, 65_536, "max_waits");
    let max_wait_bytes = positive(*max_wait_bytes, defaults.max_wait_bytes, 256 << 20, "max_wait_bytes");
    let mut retries = |value: Option<u32>, field: &str| {
        let value = value?;
        let retries = u8::try_from(value).ok().filter(|retries| *retries <= MAX_RETRIES);
        if retries.is_none() {
            problems.error(child(&place, field), format!("is {value}, must be from 0 to {MAX_RETRIES}"));
        }
        retries
    };
    let prefill_retries = retries(*prefill_retries, "prefill_retries").unwrap_or(defaults.prefill_retries);
    let decode_retries = retries(*decode_retries, "decode_retries");
    Disaggregation {
        mode: match mode {
            Some(RawDisaggregationMode::Never) => DisaggregationMode::Never,
            Some(RawDisaggregationMode::Auto) | None => DisaggregationMode::Auto,
        },
        aggregated_fallback: aggregated_fallback.unwrap_or(defaults.aggregated_fallback),
        min_uncached_tokens: min_uncached_tokens.unwrap_or(defaults.min_uncached_tokens),
        min_uncached_ratio: min_uncached_ratio.map_or(defaults.min_uncached_ratio, |value| {
            within(value, 0.0, 1.0, &child(&place, "min_uncached_ratio"), problems)
        }),
        prefill_busy_tokens: *prefill_busy_tokens,
        prefill_timeout_ms,
        prefill_retries,
        decode_retries,
        topology: topology.as_ref().map(|raw| Topology { label: raw.label.clone(), required: raw.required }),
        max_waits,
        max_wait_bytes,
        over_limit: match over_limit {
            Some(RawOverLimit::Reject) => OverLimit::Reject,
            Some(RawOverLimit::Aggregated) | None => OverLimit::Aggregated,
        },
    }
}
