//! One policy: how a target is chosen, and what happens when none can be.

use std::sync::LazyLock;

use bincode::{Decode, Encode};

use super::super::CostWeights;
use super::super::program::Program;
use crate::wire::{Role, SourceState};

/// A named way of choosing.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// How a target is chosen.
    pub mode: Mode,
    /// Weights of the default cost, and of the variables of that name in `cost`.
    pub weights: CostWeights,
    /// Replaces the default cost.
    pub cost: Option<Program>,
    /// When not to follow the cache.
    pub affinity: Affinity,
    /// Who may be chosen at all.
    pub eligibility: Eligibility,
    /// When a target counts as busy; busy ones are chosen by nothing.
    pub busy: Busy,
    /// What happens when every eligible target is busy, or none is eligible.
    pub overload: Overload,
    /// Targets named in the destination header beyond the chosen one.
    pub fallbacks: u8,
    /// What is told of a decision.
    pub explain: ExplainLevel,
    /// Whether and how prefill and decode are served by different targets.
    pub disaggregation: Disaggregation,
}

/// How a target is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Mode {
    /// By cost: KV overlap against load.
    Kv,
    /// The fewest active requests.
    LeastLoaded,
    /// The less loaded of two random ones.
    PowerOfTwo,
    /// In turn.
    RoundRobin,
    /// Uniformly at random.
    Random,
    /// By a hash of the prompt's beginning, passing on from targets over the load bound.
    PrefixHash {
        /// Tokens of the prompt that are hashed.
        tokens: u32,
        /// A target may have this many times the mean load, in hundredths (125: a quarter more).
        load_bound_percent: u32,
    },
    /// The target that served the session before; otherwise as [`Mode::Kv`].
    Session {
        /// What names a session.
        key: SessionKey,
        /// A hard session goes to its target while that is eligible; a soft one not when the target is busy.
        hard: bool,
        /// Seconds without a request after which a session is forgotten.
        ttl_seconds: u32,
    },
    /// The caller names the target in this request header as `ip:port` or `ip:port#rank`.
    Direct {
        /// Lower-case name of the header.
        header: String,
    },
    /// Not by us: Envoy's own balancing.
    Pass,
}

impl Mode {
    /// Whether the choice depends on the prompt's tokens.
    pub fn needs_tokens(&self) -> bool {
        match self {
            Self::Kv | Self::PrefixHash { .. } | Self::Session { .. } => true,
            Self::LeastLoaded
            | Self::PowerOfTwo
            | Self::RoundRobin
            | Self::Random
            | Self::Direct { .. }
            | Self::Pass => false,
        }
    }

    /// Whether the choice is by cost.
    pub fn prices(&self) -> bool {
        matches!(self, Self::Kv | Self::Session { .. })
    }

    /// Its name in documents and explanations.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::LeastLoaded => "least_loaded",
            Self::PowerOfTwo => "power_of_two",
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
            Self::PrefixHash { .. } => "prefix_hash",
            Self::Session { .. } => "session",
            Self::Direct { .. } => "direct",
            Self::Pass => "pass",
        }
    }
}

/// What names a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SessionKey {
    /// Value of a request header (lower-case name).
    Header(String),
    /// `user` of the body.
    User,
}

/// When not to follow the cache: a target that is this much busier than the least loaded one gets no credit for its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub struct Affinity {
    /// More than this many blocks of load beyond the least loaded target.
    pub max_excess_blocks: Option<f64>,
    /// More than this many times the load of the least loaded target.
    pub max_load_ratio: Option<f64>,
}

/// Who may be chosen.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct Eligibility {
    /// Every one must hold.
    pub required_labels: Vec<LabelRule>,
    /// Each that holds makes the target cheaper by its weight (see `soft` placement in the documentation).
    pub preferred_labels: Vec<(LabelRule, f64)>,
    /// Source states that may be chosen; empty: any.
    pub states: Vec<SourceState>,
    /// Roles that may be chosen.
    pub roles: Roles,
}

/// Roles of targets; none stands for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Roles(u8);

impl Roles {
    /// These.
    pub fn of(roles: &[Role]) -> Self {
        Self(roles.iter().fold(0, |bits, role| bits | Self::bit(*role)))
    }

    /// Whether a target of this role may be chosen.
    pub fn allow(self, role: Role) -> bool {
        self.0 == 0 || self.0 & Self::bit(role) != 0
    }

    fn bit(role: Role) -> u8 {
        match role {
            Role::Both => 1,
            Role::Prefill => 2,
            Role::Decode => 4,
        }
    }
}

/// A label with one of several values.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LabelRule {
    /// Name of the label.
    pub label: String,
    /// Values that fit; empty: any, as long as the label is there.
    pub values: Vec<String>,
}

impl LabelRule {
    /// Whether `labels` have it.
    pub fn holds(&self, labels: &[(String, String)]) -> bool {
        labels.iter().any(|(name, value)| {
            *name == self.label && (self.values.is_empty() || self.values.iter().any(|fit| fit == value))
        })
    }
}

/// Thresholds over which a target is busy; any one suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub struct Busy {
    /// Active decode blocks as a share of the cache.
    pub decode_blocks_share: Option<f64>,
    /// Queued prefill in tokens.
    pub prefill_tokens: Option<u64>,
    /// Queued prefill as a multiple of the tokens of one engine step.
    pub prefill_steps: Option<f64>,
    /// Requests waiting in the engine.
    pub waiting: Option<u32>,
    /// Share of the cache in use, as the engine reports it.
    pub kv_usage: Option<f64>,
}

/// What happens when no target can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Overload {
    /// Envoy's own balancing takes the request.
    Pass,
    /// The client gets this answer.
    Reject {
        /// 503, 429 or 529.
        status: u16,
        /// Seconds in `retry-after`.
        retry_after_seconds: u32,
    },
}

/// What is told of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ExplainLevel {
    /// Nothing.
    Off,
    /// Filter state for the access log.
    Log,
    /// Filter state and a response header.
    Header,
    /// Filter state with what a replay of the request needs (see `policy::Trace`).
    Trace,
}

/// Whether and how prefill and decode are served by different targets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Disaggregation {
    /// When.
    pub mode: DisaggregationMode,
    /// Whether a pool without usable prefill targets serves requests whole.
    pub aggregated_fallback: bool,
    /// Prompts with fewer uncached tokens on the decode side are served whole there; 0: none are.
    pub min_uncached_tokens: u32,
    /// Prompts whose uncached share on the decode side is smaller are served whole there; 0: none are.
    pub min_uncached_ratio: f64,
    /// When every prefill target has more tokens queued, requests are served whole.
    pub prefill_busy_tokens: Option<u64>,
    /// Milliseconds the prefill call may take.
    pub prefill_timeout_ms: u32,
    /// Further prefill targets tried after one that failed.
    pub prefill_retries: u8,
    /// Further attempts to reach a decode target; `None`: as many as Envoy's route says.
    pub decode_retries: Option<u8>,
    /// Whether prefill and decode target must share a label's value.
    pub topology: Option<Topology>,
    /// Prefill calls one Envoy thread may wait for.
    pub max_waits: u32,
    /// Bytes of request bodies held while waiting, per Envoy thread.
    pub max_wait_bytes: u32,
    /// What happens over either bound.
    pub over_limit: OverLimit,
}

impl Disaggregation {
    /// Whether short prompts stay at their decode target, which asks what it holds.
    pub fn is_conditional(&self) -> bool {
        self.mode == DisaggregationMode::Auto && (self.min_uncached_tokens > 0 || self.min_uncached_ratio > 0.0)
    }
}

/// When prefill and decode are served by different targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum DisaggregationMode {
    /// When the pool has prefill targets.
    Auto,
    /// Never.
    Never,
}

/// A label that ties the decode target to the prefill target.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Topology {
    /// Name of the label.
    pub label: String,
    /// Whether equality is required, or given up when no decode target that has it can be chosen.
    pub required: bool,
}

/// What happens to a request for which no prefill wait is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum OverLimit {
    /// It is served whole.
    Aggregated,
    /// It is refused with 503.
    Reject,
}

/// Values of fields that a document leaves out.
impl Policy {
    /// Targets named beyond the chosen one.
    pub const DEFAULT_FALLBACKS: u8 = 2;

    /// Whether the choice depends on the prompt's tokens.
    pub fn needs_tokens(&self) -> bool {
        self.mode.needs_tokens() || self.disaggregation.is_conditional()
    }

    /// A `kv` policy with every default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            mode: Mode::Kv,
            weights: CostWeights::default(),
            cost: None,
            affinity: Affinity::default(),
            eligibility: Eligibility::default(),
            busy: Busy::default(),
            overload: Overload::Pass,
            fallbacks: Self::DEFAULT_FALLBACKS,
            explain: ExplainLevel::Log,
            disaggregation: Disaggregation::default(),
        }
    }

    /// What stands in for a policy that is not there.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Policy> = LazyLock::new(|| Policy::named("builtin"));
        &BUILTIN
    }
}

impl Default for Disaggregation {
    fn default() -> Self {
        Self {
            mode: DisaggregationMode::Auto,
            aggregated_fallback: true,
            min_uncached_tokens: 0,
            min_uncached_ratio: 0.0,
            prefill_busy_tokens: None,
            prefill_timeout_ms: 60_000,
            prefill_retries: 1,
            decode_retries: None,
            topology: None,
            max_waits: 256,
            max_wait_bytes: 64 << 20,
            over_limit: OverLimit::Aggregated,
        }
    }
}
