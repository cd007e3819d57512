//! Faults of the HTTP side, through `/mock`.

use std::time::{Duration, Instant};

use mock_engine::{Faults, MockEngine, RequestFault, RequestFaultKind};
use serde_json::{Value, json};

use crate::support::{Client, config};

async fn start() -> (MockEngine, Client) {
    let engine = MockEngine::start(config()).await.unwrap();
    let client = Client::new(engine.http_addr());
    (engine, client)
}

fn body(stream: bool) -> Value {
    json!({"model": "mock", "prompt": "one two three", "max_tokens": 5, "stream": stream})
}

async fn set(client: &Client, faults: Value) {
    let answer = client.post("/mock/faults", &faults).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Status, or `None` when the connection broke.
async fn outcome(client: &Client, stream: bool) -> Option<u16> {
    client.send("POST", "/v1/completions", &[], body(stream).to_string()).await.ok().map(|answer| answer.status)
}

#[tokio::test]
async fn failing_requests_count_down() {
    let (_engine, client) = start().await;
    set(&client, json!({"requests": {"count": 2, "kind": "status", "status": 503}})).await;
    assert_eq!(outcome(&client, false).await, Some(503));
    assert_eq!(client.get("/v1/models").await.status, 200, "only generation is hit");
    assert_eq!(outcome(&client, true).await, Some(503));
    assert_eq!(outcome(&client, false).await, Some(200));
    set(&client, json!({"requests": {"count": 1, "kind": "close_before_headers"}})).await;
    assert_eq!(outcome(&client, false).await, None);
    assert_eq!(outcome(&client, false).await, Some(200));
}

#[tokio::test]
async fn a_stream_breaks_where_it_is_told() {
    let (engine, client) = start().await;
    for after_tokens in [0, 3] {
        let requests = RequestFault { count: 1, kind: RequestFaultKind::BreakStream, status: 0, after_tokens };
        engine.set_faults(Faults { requests, ..Faults::default() });
        assert_eq!(outcome(&client, true).await, None, "after {after_tokens} tokens");
        assert_eq!(outcome(&client, true).await, Some(200));
    }
}

#[tokio::test]
async fn health_and_hanging() {
    let (_engine, client) = start().await;
    assert_eq!(client.get("/health").await.status, 200);
    set(&client, json!({"health": "fail"})).await;
    assert_eq!(client.get("/health").await.status, 503);
    set(&client, json!({"health": "hang"})).await;
    assert!(tokio::time::timeout(Duration::from_millis(100), client.get("/health")).await.is_err());
    set(&client, json!({"hang": true})).await;
    assert_eq!(client.get("/health").await.status, 200);
    let waiting = outcome(&client, false);
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err());
    set(&client, json!({})).await;
    assert_eq!(waiting.await, Some(200), "released requests go on");
}

#[tokio::test]
async fn a_slow_first_token_is_slow() {
    let (_engine, client) = start().await;
    set(&client, json!({"first_token_delay_ms": 150})).await;
    for stream in [false, true] {
        let start = Instant::now();
        assert_eq!(outcome(&client, stream).await, Some(200));
        assert!(start.elapsed() >= Duration::from_millis(150));
    }
}

#[tokio::test]
async fn unknown_faults_are_refused() {
    let (_engine, client) = start().await;
    let answer = client.post("/mock/faults", &json!({"healthh": "fail"})).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("healthh"), "{}", answer.body);
    let current: Faults = serde_json::from_value(client.get("/mock/faults").await.json()).unwrap();
    assert_eq!(current, Faults::default());
}

#[tokio::test]
async fn a_crash_breaks_running_requests_and_refuses_new_ones() {
    let (mut engine, client) = start().await;
    set(&client, json!({"hang": true})).await;
    let running = outcome(&client, true);
    tokio::pin!(running);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut running).await.is_err());
    client.post("/mock/crash", &Value::Null).await;
    engine.crashed().await;
    engine.stop();
    assert_eq!(running.await, None);
    assert!(client.send("GET", "/health", &[], String::new()).await.is_err());
}

#[tokio::test]
async fn the_state_shows_what_is_cached() {
    let (_engine, client) = start().await;
    client
        .post("/v1/completions", &json!({"model": "mock", "prompt": (0..40).collect::<Vec<u32>>(), "max_tokens": 1}))
        .await;
    let state = client.get("/mock/state").await.json();
    assert_eq!(state["ranks"][0]["cached_blocks"].as_array().unwrap().len(), 2);
    assert_eq!((state["ranks"][0]["running"].as_u64(), state["ranks"][0]["kv_usage"].as_f64()), (Some(0), Some(0.0)));
}
