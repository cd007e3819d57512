//! Disaggregated serving: pairs of engines, per protocol.

mod mooncake;
mod nixl;
mod roles;
mod sglang;
mod trtllm;

use std::time::Duration;

use mock_engine::{EngineConfig, MockEngine, PdProtocol, Role, TransferConfig};
use serde_json::{Value, json};

use crate::support::{Answer, Client, config};

/// A prompt of five blocks of 16 and four tokens more.
const PROMPT: u32 = 84;

/// One prefill and one decode engine.
struct Pair {
    prefill: MockEngine,
    decode: MockEngine,
    to_prefill: Client,
    to_decode: Client,
}

impl Pair {
    async fn start(protocol: PdProtocol) -> Self {
        Self::with(TransferConfig { protocol, ..TransferConfig::default() }, 1).await
    }

    async fn with(transfer: TransferConfig, prefill_ranks: u32) -> Self {
        let engine = |role: Role, ranks: u32| {
            let transfer = TransferConfig { role, ..transfer.clone() };
            MockEngine::start(EngineConfig { transfer, data_parallel_size: ranks, ..config() })
        };
        let prefill = engine(Role::Prefill, prefill_ranks).await.unwrap();
        let decode = engine(Role::Decode, 1).await.unwrap();
        let (to_prefill, to_decode) = (Client::new(prefill.http_addr()), Client::new(decode.http_addr()));
        Self { prefill, decode, to_prefill, to_decode }
    }

    fn bootstrap_port(&self) -> u16 {
        self.prefill.side_addr().unwrap().port()
    }

    /// Requests and blocks held by the prefill engine.
    fn held(&self) -> (usize, usize) {
        let metrics = self.prefill.app().ranks.iter().map(|rank| rank.metrics());
        metrics.fold((0, 0), |(requests, blocks), rank| (requests + rank.held_requests, blocks + rank.held_blocks))
    }

    async fn held_within(&self, wait: Duration, wanted: (usize, usize)) {
        let deadline = tokio::time::Instant::now() + wait;
        while self.held() != wanted {
            assert!(tokio::time::Instant::now() < deadline, "held {:?}, wanted {wanted:?}", self.held());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn counter(&self, client: &Client, name: &str) -> u64 {
        let text = client.get("/metrics").await.body;
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64
    }
}

fn prompt(from: u32) -> Vec<u32> {
    (from..from + PROMPT).collect()
}

/// A completion body with further fields.
fn body(prompt: Vec<u32>, max_tokens: u32, more: Value) -> Value {
    let mut body = json!({"model": "mock", "prompt": prompt, "max_tokens": max_tokens});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// What an engine without disaggregation answers.
async fn plain_text(body: &Value) -> String {
    let engine = MockEngine::start(config()).await.unwrap();
    let answer = Client::new(engine.http_addr()).post("/v1/completions", body).await.json();
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

fn text(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["choices"][0]["text"].as_str().unwrap().to_owned()
}
