//! Engines that say themselves where they publish, that connect to us, or whose events are fetched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use event_bridge::bridge::Bridge;
use event_bridge::config::{Config, WorkerAddress};
use event_bridge::probe::WorkerClient;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::fake::{Fake, Replies};
use crate::support::{PATIENCE, Scratch, admin, until};

/// What an engine answers, by path; what is not there is not found. A list is worked off, its last entry stays.
type Answers = Arc<Mutex<BTreeMap<&'static str, VecDeque<String>>>>;

/// An engine's HTTP side.
struct Engine {
    address: SocketAddr,
    answers: Answers,
    task: AbortHandle,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(answers): State<Answers>, request: Request) -> (StatusCode, String) {
    let mut answers = answers.lock().unwrap();
    let Some(list) = answers.get_mut(request.uri().path()) else { return (StatusCode::NOT_FOUND, String::new()) };
    let next = if list.len() > 1 { list.pop_front() } else { list.front().cloned() };
    next.map_or((StatusCode::SERVICE_UNAVAILABLE, String::new()), |body| (StatusCode::OK, body))
}

impl Engine {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Answers::default();
        let router = Router::new().fallback(answer).with_state(answers.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        let engine = Self { address, answers, task };
        engine.say("/health", [String::new()]);
        engine.say("/metrics", [String::new()]);
        engine
    }

    fn say<const N: usize>(&self, path: &'static str, answers: [String; N]) {
        self.answers.lock().unwrap().insert(path, answers.into());
    }

    fn name_sources(&self, sources: Value) {
        self.say("/kv_event_sources", [sources.to_string()]);
    }

    /// Seems dead to one probe, as an engine that is started anew.
    async fn be_away(&self, bridge: &Bridge) {
        self.say("/health", []);
        until("the bridge notices", async || (!worker(bridge).await["health_error"].is_null()).then_some(())).await;
        self.say("/health", [String::new()]);
    }
}

async fn bridge(scratch: &Scratch, engine: &Engine, pool: Value) -> Bridge {
    let mut config = json!({"name": "pool", "models": ["m"], "workers": [{"address": engine.address.to_string()}],
        "probe": {"interval_ms": 50}, "events": {"source": "engine"}});
    config.as_object_mut().unwrap().extend(pool.as_object().unwrap().clone());
    let config = json!({"admin": {"listen": "127.0.0.1:0"}, "pools": [config]});
    Bridge::start(Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()).await.unwrap()
}

pub(crate) async fn worker(bridge: &Bridge) -> Value {
    admin(bridge, "/workers").await.unwrap()["pools"][0]["workers"][0].clone()
}

/// Ranks with their event sockets.
async fn sockets(bridge: &Bridge) -> Vec<(Option<u64>, Option<String>)> {
    let worker = worker(bridge).await;
    let targets = worker["targets"].as_array().unwrap();
    targets.iter().map(|at| (at["rank"].as_u64(), at["events"]["endpoint"].as_str().map(str::to_owned))).collect()
}

/// Blocks in the index, by rank.
pub(crate) async fn held(bridge: &Bridge) -> BTreeMap<Option<u64>, BTreeSet<String>> {
    let address = WorkerAddress::parse(&bridge.admin_address().to_string()).unwrap();
    let text = WorkerClient::new(&address, PATIENCE).get("/index").await.unwrap();
    let mut held: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let block = line["sequence_hash"].as_str().unwrap().to_owned();
        held.entry(line["rank"].as_u64()).or_default().insert(block);
    }
    held
}

async fn publisher() -> Fake {
    Fake::bind("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", Replies::WithTopic).await
}

/// As vLLM tells it.
fn source(engine: &Fake) -> Value {
    json!({"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": engine.live, "replay_endpoint": engine.replay,
           "topic": "kv-events"})
}

/// A batch of a real engine that stores some blocks.
pub(crate) fn recorded(line: usize) -> Vec<u8> {
    let text = include_str!("../../../tests/data/vllm-real-frames.jsonl").lines().nth(line).unwrap();
    let record: Value = serde_json::from_str(text).unwrap();
    let hex = record["payload_hex"].as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn port(endpoint: &str) -> u16 {
    endpoint.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn vllm_names_its_ranks_and_their_sockets() {
    let (scratch, engine) = (Scratch::new(), Engine::start().await);
    let (mut first, mut second) = (publisher().await, publisher().await);
    first.remember(&recorded(0));
    engine.name_sources(json!({"0": source(&first), "1": source(&second)}));
    let bridge = bridge(&scratch, &engine, json!({})).await;
    let expected = vec![(Some(0), Some(first.live.clone())), (Some(1), Some(second.live.clone()))];
    until("both ranks are known", async || (sockets(&bridge).await == expected).then_some(())).await;
    until("what was published before is there", async || held(&bridge).await.contains_key(&Some(0)).then_some(()))
        .await;
    assert!(!held(&bridge).await.contains_key(&Some(1)));
    until("the second rank's live batch arrives", async || {
        second.publish(&recorded(0));
        held(&bridge).await.contains_key(&Some(1)).then_some(())
    })
    .await;

    // Started anew, it publishes elsewhere and has one rank.
    let mut moved = publisher().await;
    moved.remember(&recorded(0));
    engine.name_sources(json!({"0": source(&moved)}));
    engine.be_away(&bridge).await;
    let expected = vec![(None, Some(moved.live.clone()))];
    until("the new socket is known", async || (sockets(&bridge).await == expected).then_some(())).await;
    until("only the new engine's blocks are held", async || {
        let held = held(&bridge).await;
        (held.len() == 1 && held.contains_key(&None)).then_some(())
    })
    .await;
    bridge.stop().await;
}

#[tokio::test]
async fn sglang_names_base_ports_under_either_path() {
    let (scratch, engine, mut publisher) = (Scratch::new(), Engine::start().await, publisher().await);
    publisher.remember(&recorded(0));
    let info = json!({"version": "0.5.23", "kv_events": {"publisher": "zmq", "endpoint_host": "*", "topic": "kv-events",
        "endpoint_port_base": port(&publisher.live), "replay_endpoint_port_base": port(&publisher.replay), "block_size": 32}});
    engine.say("/get_server_info", [info.to_string()]);
    let bridge = bridge(&scratch, &engine, json!({"engine": "sglang"})).await;
    until("its blocks are held", async || held(&bridge).await.contains_key(&None).then_some(())).await;
    assert_eq!(sockets(&bridge).await, [(None, Some(format!("tcp://127.0.0.1:{}", port(&publisher.live))))]);
    bridge.stop().await;
}

#[tokio::test]
async fn an_engine_whose_publisher_connects_is_awaited() {
    let (scratch, engine) = (Scratch::new(), Engine::start().await);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // It was told the name of a service in front of the bridge.
    let told = json!({"enable_kv_cache_events": true, "publisher": "zmq", "topic": "kv-events",
        "endpoint": format!("tcp://bridge.kv.svc:{free}")});
    engine.name_sources(json!({"0": told}));
    let bridge = bridge(&scratch, &engine, json!({})).await;
    until("it is awaited", async || (worker(&bridge).await["targets"][0]["events"]["bind"] == true).then_some(()))
        .await;
    let mut publisher = Fake::connect(&format!("tcp://127.0.0.1:{free}")).await;
    until("its blocks are held", async || {
        publisher.publish(&recorded(0));
        held(&bridge).await.contains_key(&None).then_some(())
    })
    .await;
    bridge.stop().await;
}

#[tokio::test]
async fn trtllm_is_polled_and_its_ranks_are_told_apart() {
    let (scratch, engine) = (Scratch::new(), Engine::start().await);
    let store = |id: u64, rank: u32, from: u32| {
        let tokens: Vec<Value> =
            (from..from + 32).map(|token| json!({"token_id": token, "token_extra_id": 0})).collect();
        json!({"event_id": id, "attention_dp_rank": rank, "window_size": 4096, "data": {"type": "stored", "parent_hash": null,
            "blocks": [{"type": "stored_block", "block_hash": from, "cache_level": 0, "priority": 35, "tokens": tokens}]}})
    };
    let first = json!([store(0, 0, 100), store(1, 0, 200), store(0, 1, 300), store(0, 2, 400)]).to_string();
    engine.say("/kv_cache_events", [first, "[]".into()]);
    let workers = json!([{"address": engine.address.to_string(), "ranks": 2}]);
    let pool = json!({"engine": "trtllm", "events": {}, "workers": workers});
    let bridge = bridge(&scratch, &engine, pool).await;
    until("all blocks are held", async || {
        let held: Vec<_> = held(&bridge).await.into_iter().map(|(rank, blocks)| (rank, blocks.len())).collect();
        (held == [(Some(0), 2), (Some(1), 1)]).then_some(())
    })
    .await;
    let worker = worker(&bridge).await;
    let url = format!("http://{}/kv_cache_events", engine.address);
    assert_eq!(worker["targets"][1]["events"], json!({"polled": url}));
    assert_eq!(worker["targets"][0]["reason"], "parity_unknown");
    bridge.stop().await;

    // Without ranks, its only one may be numbered.
    engine.say("/kv_cache_events", [json!([store(0, 0, 100)]).to_string(), "[]".into()]);
    let bridge = self::bridge(&scratch, &engine, json!({"engine": "trtllm", "events": {}})).await;
    until("its block is held", async || held(&bridge).await.contains_key(&None).then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn an_engine_that_does_not_say_is_routed_to_by_load_and_that_is_said() {
    let (scratch, engine, publisher) = (Scratch::new(), Engine::start().await, publisher().await);
    let bridge =
        bridge(&scratch, &engine, json!({"workers": [{"address": engine.address.to_string(), "ranks": 2}]})).await;
    let error = async |part: &str| {
        let error = worker(&bridge).await["events_error"].as_str().map(str::to_owned);
        error.filter(|error| error.contains(part)).map(drop)
    };
    until("an old release is told from a new one", async || error("events.source: ports").await).await;
    assert_eq!(sockets(&bridge).await, [(Some(0), None), (Some(1), None)]);
    assert_eq!(worker(&bridge).await["targets"][0]["state"], "none");

    engine
        .name_sources(json!({"0": {"enable_kv_cache_events": false, "publisher": "null", "endpoint": "tcp://*:5557"}}));
    until("events that are off are noticed", async || error("--kv-events-config").await).await;

    engine.name_sources(json!({"0": source(&publisher)}));
    until("a rank that is missing is noticed", async || error("ranks [1] are configured").await).await;
    assert_eq!(sockets(&bridge).await, [(Some(0), Some(publisher.live.clone())), (Some(1), None)]);
    bridge.stop().await;
}
