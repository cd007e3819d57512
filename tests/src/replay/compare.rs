//! The same trace under different ways of balancing.

use std::time::Duration;

use anyhow::Result;
use mock_engine::{EngineConfig, Speed};
use serde_json::{Value, json};

use super::{Outcome, Replay, TraceRequest, working_set_tokens};
use crate::disagg::{self, Split};
use crate::engine::{self, Engine};
use crate::envoy;
use crate::stack::{Options, Stack};

const ENGINES: usize = 4;
const BLOCK_SIZE: u32 = 16;
/// About what an A100-class GPU does for an 8B model: the trace loads four of them to a good half.
const PREFILL_TOKENS_PER_S: f64 = 20_000.0;
const DECODE_MS_PER_TOKEN: f64 = 10.0;
const MAX_OUTPUT: u32 = 32;

/// Cache of each engine where a shadow is compared with its policy at work. A policy that keeps prompts together fills caches with other
/// things than one that scatters them, and the longer nothing has to go, the more the two differ.
const SHADOWED_BLOCKS: u32 = 50_000;

/// Decisions reach the bridge with the next heartbeat.
const REPORTED_WITHIN: Duration = Duration::from_millis(1_500);

/// How requests are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    /// The filter.
    Kv,
    /// Envoy's least request.
    LeastRequest,
    /// Envoy's round robin.
    RoundRobin,
}

impl Balancing {
    /// All, the filter first.
    pub const ALL: [Self; 3] = [Self::Kv, Self::LeastRequest, Self::RoundRobin];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::LeastRequest => "least request",
            Self::RoundRobin => "round robin",
        }
    }

    fn envoy(self) -> envoy::Options {
        match self {
            Self::Kv => envoy::Options::default(),
            Self::LeastRequest => envoy::Options::without_filter(),
            Self::RoundRobin => envoy::Options::round_robin(),
        }
    }

    /// Replays `requests` on fresh engines, everything `compression` times as fast as recorded.
    ///
    /// # Errors
    /// When any request fails.
    pub async fn replay(self, requests: &[TraceRequest], compression: f64) -> Result<Outcome> {
        Served::start(self.envoy(), &engine(requests, compression)).await.replay(requests, compression).await
    }
}

/// Replays `requests` through the filter under a policy document, by one Envoy thread, so that turns are taken in the same order every
/// time.
///
/// # Errors
/// When any request fails.
pub async fn replay_under(document: &Value, requests: &[TraceRequest], compression: f64) -> Result<Outcome> {
    let served = Served::start(one_thread(), &shadowed(requests, compression)).await;
    served.stack.bridge.put_policy(document).await;
    served.replay(requests, compression).await
}

/// The same without a document in force and with this one as its shadow; also how that shadow did.
///
/// # Errors
/// When any request fails.
pub async fn replay_beside(shadow: &Value, requests: &[TraceRequest], compression: f64) -> Result<(Outcome, Value)> {
    let served = Served::start(one_thread(), &shadowed(requests, compression)).await;
    served.stack.bridge.put_shadow(shadow).await;
    let outcome = served.replay(requests, compression).await?;
    tokio::time::sleep(REPORTED_WITHIN).await;
    Ok((outcome, served.stack.bridge.get("/policy").await["shadow"]["tally"].take()))
}

fn shadowed(requests: &[TraceRequest], compression: f64) -> EngineConfig {
    EngineConfig { num_blocks: SHADOWED_BLOCKS, ..engine(requests, compression) }
}

fn one_thread() -> envoy::Options {
    envoy::Options { concurrency: 1, ..envoy::Options::default() }
}

/// Fresh engines behind an Envoy.
struct Served {
    stack: Stack,
    _engines: Vec<Engine>,
}

impl Served {
    async fn start(envoy: envoy::Options, engine: &EngineConfig) -> Self {
        let engines = Engine::start_many(ENGINES, engine).await;
        let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
        let options = Options { envoy, family: None, block_size: BLOCK_SIZE, ..Options::default() };
        Self { stack: Stack::start(&workers, options).await, _engines: engines }
    }

    async fn replay(&self, requests: &[TraceRequest], compression: f64) -> Result<Outcome> {
        let model = self.stack.options.model.clone();
        Replay { model, compression, max_output: MAX_OUTPUT }.run(&self.stack.envoy.url, requests).await
    }
}

/// Uncached tokens below which a conditional hand-over leaves a prompt at its decode target.
const SHORT_TOKENS: u32 = 2_048;

/// Ways of choosing among two prefill and two decode targets, as policies: with their names for tables.
pub fn splits() -> [(String, Value); 4] {
    [("kv", 0), ("kv", SHORT_TOKENS), ("round_robin", 0), ("round_robin", SHORT_TOKENS)].map(|(mode, short)| {
        let condition = if short == 0 { "always".to_owned() } else { format!("from {short} uncached tokens") };
        let name = format!("2P+2D, prefill by `{mode}`, {condition}");
        (name, json!({"mode": mode, "disaggregation": {"min_uncached_tokens": short}}))
    })
}

/// Replays `requests` on two fresh prefill and two fresh decode engines (NIXL) under `policy`.
///
/// # Errors
/// When any request fails.
pub async fn replay_split(policy: &Value, requests: &[TraceRequest], compression: f64) -> Result<Outcome> {
    let config = engine(requests, compression);
    let protocol = config.transfer.protocol;
    let (envoy, pool) = (disagg::envoy(protocol), disagg::pool(protocol));
    let options = Options { envoy, pool, family: None, block_size: BLOCK_SIZE, ..Options::default() };
    let split = Split::start_with(&config, ENGINES / 2, ENGINES / 2, options).await;
    let document = json!({"version": 1, "policies": {"p": policy}, "default": "p"});
    split.stack.bridge.put_policy(&document).await;
    let replay = Replay { model: split.stack.options.model.clone(), compression, max_output: MAX_OUTPUT };
    replay.run(&split.stack.envoy.url, requests).await
}

/// The cache of each engine holds a quarter of the working set.
fn engine(requests: &[TraceRequest], compression: f64) -> EngineConfig {
    let blocks = working_set_tokens(requests) / BLOCK_SIZE as usize / ENGINES;
    EngineConfig {
        block_size: BLOCK_SIZE,
        num_blocks: u32::try_from(blocks).expect("blocks of a trace"),
        max_model_len: Some(131_072),
        speed: Speed {
            prefill_tokens_per_s: PREFILL_TOKENS_PER_S,
            decode_ms_per_token: DECODE_MS_PER_TOKEN,
            speedup: compression,
        },
        ..engine::config()
    }
}
