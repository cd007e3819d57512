//! What the access log says about a request.

use serde::Deserialize;

/// One access-log line of the checked-in configurations.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// HTTP status.
    pub status: u16,
    /// Upstream attempts.
    pub attempts: u32,
    /// Host that answered, `ip:port`.
    pub upstream: String,
    /// The filter's decision; `None` on requests it did not route.
    pub decision: Option<Decision>,
    /// Why it left an inference request to Envoy's balancer: the end of a counter's name, `no_manifest` for example.
    pub unrouted: Option<String>,
}

/// The filter's explanation of a decision; see `kv_routing::policy::Explanation`.
#[derive(Clone, Debug, Deserialize)]
pub struct Decision {
    /// Pool.
    pub pool: String,
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
    /// Leading blocks believed on the target.
    pub overlap: Overlap,
    /// Cost in blocks.
    pub cost: Cost,
    /// Next best.
    pub runner_up: Option<RunnerUp>,
    /// Endpoints named after the chosen one.
    pub fallbacks: Vec<String>,
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
        let number = |name: &str| field(name).parse().unwrap_or_else(|_| panic!("{name} is no number in {line}"));
        let state: Option<serde_json::Value> = (decision != "-")
            .then(|| serde_json::from_str(decision).unwrap_or_else(|error| panic!("{error} in {decision}")));
        let unrouted = state.as_ref().and_then(|state| Some(state.get("unrouted")?.as_str()?.to_owned()));
        let decision = state
            .filter(|_| unrouted.is_none())
            .map(|state| serde_json::from_value(state).unwrap_or_else(|error| panic!("{error} in {decision}")));
        Self {
            status: u16::try_from(number("status")).expect("status"),
            attempts: number("attempts"),
            upstream: field("upstream").to_owned(),
            decision,
            unrouted,
        }
    }
}
