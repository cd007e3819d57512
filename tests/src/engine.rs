//! Simulated engines with a real KV cache and real events, in the test's own process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mock_engine::{EngineConfig, EventsConfig, MockEngine, Model, ModelSource, Role, Speed, TransferConfig};

use crate::bridge::Worker;
use crate::client::Client;
use crate::{paths, wait};

/// Fast enough that tests wait for the router and not for the engine.
const FAST: Speed = Speed { prefill_tokens_per_s: 1_000_000.0, decode_ms_per_token: 0.5, speedup: 1.0 };

/// Sockets of a stopped engine close soon, but not at once.
const PORTS_LIMIT: Duration = Duration::from_secs(5);

/// A running engine. Dropping it is like killing the process: every socket closes.
#[derive(Debug)]
pub struct Engine {
    engine: MockEngine,
    config: EngineConfig,
    client: Client,
}

/// What the tests start, unless they say otherwise: Qwen3's tokenizer and template, blocks of 16 tokens, no waiting.
pub fn config() -> EngineConfig {
    EngineConfig { num_blocks: 20_000, speed: FAST, ..EngineConfig::new(ModelSource::Loaded(qwen3())) }
}

/// Loaded once for all engines of the test process.
fn qwen3() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    MODEL.get_or_init(|| Arc::new(Model::load(&paths::model_dir("qwen3")).expect("model folder"))).clone()
}

impl Engine {
    /// Starts one.
    pub async fn start(config: EngineConfig) -> Self {
        let engine = MockEngine::start(config.clone()).await.expect("engine");
        Self { engine, config, client: Client::new() }
    }

    /// Dies, and starts again on the same ports with an empty cache.
    pub async fn restart(self) -> Self {
        let config = self.same_ports();
        self.die();
        Self::start_again(config).await
    }

    /// Starts one whose ports another one had, as soon as they are free.
    pub async fn start_again(config: EngineConfig) -> Self {
        let (engine, _) = wait::until("the engine's ports are free", PORTS_LIMIT, async || {
            MockEngine::start(config.clone()).await.ok()
        })
        .await;
        Self { engine, config, client: Client::new() }
    }

    /// Its configuration, with the ports it has.
    pub fn same_ports(&self) -> EngineConfig {
        let events = self.config.events.clone().map(|events| EventsConfig {
            endpoint: self.engine.events_endpoint().expect("events are on").to_owned(),
            replay_endpoint: self.engine.replay_endpoint().map(str::to_owned),
            ..events
        });
        let side_port = self.engine.side_addr().map_or(0, |address| address.port());
        let transfer = TransferConfig { side_port, ..self.config.transfer.clone() };
        EngineConfig { port: self.engine.http_addr().port(), events, transfer, ..self.config.clone() }
    }

    /// Starts several with the same configuration, on ports of their own.
    pub async fn start_many(count: usize, config: &EngineConfig) -> Vec<Self> {
        let mut engines = Vec::with_capacity(count);
        for _ in 0..count {
            engines.push(Self::start(config.clone()).await);
        }
        engines
    }

    /// `ip:port`.
    pub fn address(&self) -> String {
        self.engine.http_addr().to_string()
    }

    /// URL of one of its paths.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.engine.http_addr())
    }

    /// How the workers file names it.
    pub fn worker(&self) -> Worker {
        let endpoint = self.engine.events_endpoint().expect("events are on");
        let replay = self.engine.replay_endpoint().map(str::to_owned);
        let (role, bootstrap_port) = match self.config.transfer.role {
            Role::Both => (None, None),
            Role::Decode => (Some("decode"), None),
            Role::Prefill => (Some("prefill"), self.engine.side_addr().map(|address| address.port())),
        };
        Worker { address: self.address(), events: Some((endpoint.to_owned(), replay)), role, bootstrap_port }
    }

    /// Requests and blocks held for decode engines.
    pub fn held(&self) -> (usize, usize) {
        let metrics = self.engine.app().ranks.iter().map(|rank| rank.metrics());
        metrics.fold((0, 0), |(requests, blocks), rank| (requests + rank.held_requests, blocks + rank.held_blocks))
    }

    /// Requests being computed, and waiting.
    pub fn load(&self) -> (usize, usize) {
        let ranks = self.engine.app().ranks.iter().map(|rank| rank.load());
        ranks.fold((0, 0), |sum, (running, waiting)| (sum.0 + running, sum.1 + waiting))
    }

    /// One of its metrics, all series added up.
    pub async fn metric(&self, name: &str) -> u64 {
        let text = self.client.get(&self.url("/metrics")).await.expect("engine").expect_ok().text();
        let series = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Generation requests it has answered.
    pub async fn requests(&self) -> u64 {
        let text = self.client.get(&self.url("/metrics")).await.expect("engine").expect_ok().text();
        let series =
            text.lines().filter(|line| line.starts_with("http_requests_total") && line.contains("completions"));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Dies: what is in flight breaks off, nothing is said any more.
    pub fn die(self) {
        self.engine.stop();
    }
}
