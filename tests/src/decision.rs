//! What the access log says about a request.

use serde::Deserialize;

/// One access-log line of the checked-in configurations.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// When the request began, in the format of the configuration.
    pub start: String,
    /// Path and query.
    pub path: String,
    /// HTTP status.
    pub status: u16,
    /// From the first byte of the request to the last of the answer.
    pub millis: u32,
    /// Upstream attempts.
    pub attempts: u32,
    /// Host that answered, `ip:port`.
    pub upstream: String,
    /// Cached prompt tokens by the engine's own report, where the filter saw one.
    pub cached: Option<u64>,
    /// The filter's decision; `None` on requests it did not route.
    pub decision: Option<Decision>,
    /// Why it did not route a request on an inference path.
    pub unrouted: Option<String>,
    /// What it told a client whose request it refused.
    pub refused: Option<String>,
}

#[derive(Deserialize)]
struct Unrouted {
    unrouted: String,
}

#[derive(Deserialize)]
struct Refused {
    reason: String,
}

/// The filter's explanation of a decision; see `kv_routing::policy::Explanation`.
#[derive(Clone, Debug, Deserialize)]
pub struct Decision {
    /// Pool.
    pub pool: String,
    /// Policy.
    pub policy: String,
    /// Rule that chose the policy.
    pub rule: String,
    /// Rung of the ladder.
    pub rung: String,
    /// Chosen endpoint.
    pub target: String,
    /// Data-parallel rank.
    pub rank: Option<u32>,
    /// State of the target's KV source.
    pub state: String,
    /// Prompt tokens.
    pub tokens: u64,
    /// Full blocks of the prompt.
    pub blocks: u64,
    /// Who tokenized the prompt, when the filter did not.
    pub tokenized_by: Option<String>,
    /// Leading blocks believed on the target.
    pub overlap: Overlap,
    /// Cost in blocks.
    pub cost: Cost,
    /// Next best.
    pub runner_up: Option<RunnerUp>,
    /// Endpoints named after the chosen one.
    pub fallbacks: Vec<String>,
    /// Where it was prefilled, when not on the target.
    pub handoff: Option<Handoff>,
    /// Why a pool with prefill targets served it whole.
    pub whole: Option<String>,
}

/// A prefill on another target.
#[derive(Clone, Debug, Deserialize)]
pub struct Handoff {
    /// Protocol.
    pub protocol: String,
    /// Endpoint that prefilled.
    pub prefill: String,
    /// Its rank.
    pub rank: Option<u32>,
    /// Leading blocks believed there.
    pub overlap: Overlap,
    /// Microseconds the decode call waited for it.
    pub wait_us: u64,
}

/// Overlap by tier, in blocks.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Overlap {
    /// Device memory.
    pub device: u64,
    /// Host memory, beyond.
    pub host: u64,
    /// Disk, beyond.
    pub disk: u64,
}

/// Cost in blocks.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Cost {
    /// Sum.
    pub total: f64,
}

/// Next best target.
#[derive(Clone, Debug, Deserialize)]
pub struct RunnerUp {
    /// Endpoint.
    pub target: String,
    /// Cost in blocks.
    pub cost: f64,
}

impl Overlap {
    /// Blocks on any tier.
    pub fn total(self) -> u64 {
        self.device + self.host + self.disk
    }
}

impl Decision {
    /// Prompt tokens that a vLLM engine should report as cached: it always computes at least the last one, and only
    /// whole blocks count, so a prompt that is cached to its end gives one block less.
    pub fn predicted_cached_tokens(&self, block_size: u64) -> u64 {
        let reusable = self.tokens.saturating_sub(1) / block_size;
        self.overlap.total().min(reusable) * block_size
    }
}

impl LogLine {
    /// Reads a line.
    ///
    /// # Panics
    /// When it is not one of ours: the format is part of what is tested.
    pub fn parse(line: &str) -> Self {
        let (fields, decision) = line.split_once(" kv=").unwrap_or_else(|| panic!("no kv= in {line}"));
        let field = |name: &str| {
            let value = fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("no {name}= in {line}"))
        };
        let number =
            |name: &str| field(name).parse::<u32>().unwrap_or_else(|_| panic!("{name} is no number in {line}"));
        let unrouted = serde_json::from_str::<Unrouted>(decision).ok().map(|reason| reason.unrouted);
        let refused = serde_json::from_str::<Refused>(decision).ok().map(|refused| refused.reason);
        let decision = (decision != "-" && unrouted.is_none() && refused.is_none())
            .then(|| serde_json::from_str(decision).unwrap_or_else(|error| panic!("{error} in {decision}")));
        let start = fields.strip_prefix('[').and_then(|rest| rest.split(']').next());
        Self {
            start: start.unwrap_or_else(|| panic!("no [start] in {line}")).to_owned(),
            path: field("path").to_owned(),
            millis: number("ms"),
            status: u16::try_from(number("status")).expect("status"),
            attempts: number("attempts"),
            cached: (field("cached") != "-").then(|| number("cached").into()),
            upstream: field("upstream").to_owned(),
            decision,
            unrouted,
            refused,
        }
    }
}
