//! What an engine is started with.

mod resolve;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use resolve::ConfigError;

use crate::model::Model;
use crate::transfer::TransferConfig;

/// A LoRA adapter that the engine serves beside its base model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adapter {
    /// Per-process number, from 1.
    pub id: u32,
    /// The model name clients use.
    pub name: String,
    /// Path of the weights: part of the block hash.
    pub path: String,
}

/// Where tokenizer and chat template come from.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A folder with `tokenizer.json` and `tokenizer_config.json`.
    Dir(PathBuf),
    /// A model that is loaded already; lets several engines of one process share it.
    Loaded(Arc<Model>),
}

/// How fast the engine is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Prompt tokens computed per second.
    pub prefill_tokens_per_s: f64,
    /// Milliseconds of one decode step, whatever the batch.
    pub decode_ms_per_token: f64,
    /// Everything happens this many times faster.
    pub speedup: f64,
}

impl Default for Speed {
    fn default() -> Self {
        Self { prefill_tokens_per_s: 20_000.0, decode_ms_per_token: 10.0, speedup: 1.0 }
    }
}

impl Speed {
    /// Duration of a step that computes `prefill_tokens` and, if `decodes`, one token of every running request.
    pub fn step(&self, prefill_tokens: usize, decodes: bool) -> Duration {
        let prefill = prefill_tokens as f64 / self.prefill_tokens_per_s;
        let decode = if decodes { self.decode_ms_per_token / 1000.0 } else { 0.0 };
        self.scaled(prefill + decode)
    }

    /// `seconds` of simulated time as real time.
    pub fn scaled(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds / self.speedup).unwrap_or(Duration::ZERO)
    }
}

/// The event sockets. Rank `r` uses port + `r`, as vLLM does; port 0 lets the system choose for every rank.
#[derive(Clone, Debug)]
pub struct EventsConfig {
    /// PUB endpoint of rank 0.
    pub endpoint: String,
    /// Replay endpoint of rank 0; none means no replay.
    pub replay_endpoint: Option<String>,
    /// Topic frame.
    pub topic: String,
    /// Batches kept for replay.
    pub buffer_steps: usize,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self {
            endpoint: "tcp://127.0.0.1:0".to_owned(),
            replay_endpoint: Some("tcp://127.0.0.1:0".to_owned()),
            topic: "kv-events".to_owned(),
            buffer_steps: 10_000,
        }
    }
}

/// Everything an engine is started with. Use struct update syntax over [`EngineConfig::new`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Tokenizer and chat template.
    pub model: ModelSource,
    /// Names the base model answers to; the first one is shown in answers and metrics.
    pub served_model_names: Vec<String>,
    /// Adapters.
    pub adapters: Vec<Arc<Adapter>>,
    /// Address of the HTTP listener.
    pub host: IpAddr,
    /// Port of the HTTP listener; 0 lets the system choose.
    pub port: u16,
    /// Tokens in a block.
    pub block_size: u32,
    /// Blocks per rank, the null block included.
    pub num_blocks: u32,
    /// Longest prompt plus answer; by default what the cache of one rank holds, at most 262,144.
    pub max_model_len: Option<u32>,
    /// Requests computed at once per rank.
    pub max_num_seqs: u32,
    /// Tokens computed in one step per rank; longer prompts are cut into chunks.
    pub max_num_batched_tokens: u32,
    /// Number of data-parallel ranks.
    pub data_parallel_size: u32,
    /// Speeds.
    pub speed: Speed,
    /// Event sockets; none switches events off.
    pub events: Option<EventsConfig>,
    /// Seed of the block hash chain (what `PYTHONHASHSEED` sets).
    pub hash_seed: String,
    /// Salt of requests that carry none, as something in front of an engine may add one.
    pub default_cache_salt: Option<String>,
    /// Seed of the generated answers.
    pub seed: u64,
    /// Length of a chat answer whose request sets no limit.
    pub natural_output_tokens: u32,
    /// Add usage to every stream, asked for or not.
    pub force_include_usage: bool,
    /// Part in a disaggregated pool.
    pub transfer: TransferConfig,
}

impl EngineConfig {
    /// The defaults, with system-chosen ports on loopback.
    pub fn new(model: ModelSource) -> Self {
        Self {
            model,
            served_model_names: vec!["mock".to_owned()],
            adapters: Vec::new(),
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            block_size: 16,
            num_blocks: 2_048,
            max_model_len: None,
            max_num_seqs: 128,
            max_num_batched_tokens: 8_192,
            data_parallel_size: 1,
            speed: Speed::default(),
            events: Some(EventsConfig::default()),
            hash_seed: crate::cache::DEFAULT_HASH_SEED.to_owned(),
            default_cache_salt: None,
            seed: 0,
            natural_output_tokens: 64,
            force_include_usage: false,
            transfer: TransferConfig::default(),
        }
    }
}
