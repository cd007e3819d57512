//! A policy document as it is written. Nothing here is checked beyond its shape.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `version` of the format this build reads.
pub(super) const FORMAT: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDocument {
    pub(super) version: u32,
    pub(super) policies: BTreeMap<String, RawPolicy>,
    #[serde(default)]
    pub(super) rules: Vec<RawRule>,
    pub(super) default: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) when: RawMatch,
    pub(super) policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMatch {
    #[serde(default)]
    pub(super) model: Vec<String>,
    #[serde(default)]
    pub(super) adapter: Vec<String>,
    #[serde(default)]
    pub(super) header: Vec<RawHeader>,
    #[serde(default)]
    pub(super) path: Vec<String>,
    pub(super) prompt_tokens: Option<RawRange<u32>>,
    pub(super) stream: Option<bool>,
    pub(super) priority: Option<RawRange<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHeader {
    pub(super) name: String,
    pub(super) exact: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) present: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRange<T> {
    pub(super) min: Option<T>,
    pub(super) max: Option<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawMode {
    Kv,
    LeastLoaded,
    PowerOfTwo,
    RoundRobin,
    Random,
    PrefixHash,
    Session,
    Direct,
    Pass,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    pub(super) mode: RawMode,
    pub(super) prefix_hash: Option<RawPrefixHash>,
    pub(super) session: Option<RawSession>,
    pub(super) direct: Option<RawDirect>,
    pub(super) weights: Option<RawWeights>,
    pub(super) tier: Option<RawTier>,
    pub(super) temperature: Option<f64>,
    pub(super) cost: Option<String>,
    pub(super) affinity: Option<RawAffinity>,
    pub(super) eligibility: Option<RawEligibility>,
    pub(super) busy: Option<RawBusy>,
    pub(super) overload: Option<RawOverload>,
    pub(super) fallbacks: Option<u8>,
    pub(super) explain: Option<RawExplain>,
    pub(super) disaggregation: Option<RawDisaggregation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrefixHash {
    pub(super) tokens: Option<u32>,
    pub(super) load_bound: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSession {
    pub(super) header: Option<String>,
    pub(super) user: Option<bool>,
    pub(super) stickiness: Option<RawStickiness>,
    pub(super) ttl_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawStickiness {
    Hard,
    Soft,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDirect {
    pub(super) header: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWeights {
    pub(super) prefill_scale: Option<f64>,
    pub(super) request_weight: Option<f64>,
    pub(super) credit_decay: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTier {
    pub(super) device: Option<f64>,
    pub(super) host: Option<f64>,
    pub(super) disk: Option<f64>,
    /// Known, so that it can be said why it is refused.
    pub(super) shared: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAffinity {
    pub(super) max_excess_blocks: Option<f64>,
    pub(super) max_load_ratio: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEligibility {
    #[serde(default)]
    pub(super) required_labels: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(super) preferred_labels: Vec<RawPreferred>,
    #[serde(default)]
    pub(super) states: Vec<String>,
    #[serde(default)]
    pub(super) roles: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPreferred {
    pub(super) label: String,
    #[serde(default)]
    pub(super) values: Vec<String>,
    pub(super) weight: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBusy {
    pub(super) decode_blocks_share: Option<f64>,
    pub(super) prefill_tokens: Option<u64>,
    pub(super) prefill_steps: Option<f64>,
    pub(super) waiting: Option<u32>,
    pub(super) kv_usage: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOverload {
    pub(super) action: RawOverloadAction,
    pub(super) status: Option<u16>,
    pub(super) retry_after_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawOverloadAction {
    Pass,
    Reject,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawExplain {
    Off,
    Log,
    Header,
    Trace,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDisaggregation {
    pub(super) mode: Option<RawDisaggregationMode>,
    pub(super) aggregated_fallback: Option<bool>,
    pub(super) min_uncached_tokens: Option<u32>,
    pub(super) min_uncached_ratio: Option<f64>,
    pub(super) prefill_busy_tokens: Option<u64>,
    pub(super) prefill_timeout_ms: Option<u32>,
    pub(super) prefill_retries: Option<u32>,
    pub(super) decode_retries: Option<u32>,
    pub(super) topology: Option<RawTopology>,
    pub(super) max_waits: Option<u32>,
    pub(super) max_wait_bytes: Option<u32>,
    pub(super) over_limit: Option<RawOverLimit>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawDisaggregationMode {
    Auto,
    Never,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTopology {
    pub(super) label: String,
    #[serde(default)]
    pub(super) required: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawOverLimit {
    Aggregated,
    Reject,
}
