use std::time::Duration;

use mock_engine::{PdProtocol, TransferConfig};
use serde_json::{Value, json};

use super::{Pair, body, plain_text, prompt, text};
use crate::support::{Subscriber, decode};

fn ask() -> Value {
    json!({"kv_transfer_params": {
        "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
        "remote_block_ids": null, "remote_host": null, "remote_port": null,
    }})
}

/// Runs the prefill and returns its transfer parameters.
async fn prefill(pair: &Pair, tokens: Vec<u32>) -> Value {
    let answer = pair.to_prefill.post("/v1/completions", &body(tokens, 1, ask())).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["kv_transfer_params"].clone()
}

fn with_params(tokens: Vec<u32>, params: &Value) -> Value {
    body(tokens, 6, json!({"kv_transfer_params": params}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decode_pulls_what_prefill_holds_and_answers_the_same() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let mut prefill_events = Subscriber::connect(pair.prefill.events_endpoint().unwrap()).await;
    let mut decode_events = Subscriber::connect(pair.decode.events_endpoint().unwrap()).await;
    let params = prefill(&pair, prompt(0)).await;
    assert_eq!(params["do_remote_prefill"], true);
    assert_eq!(params["remote_port"], pair.bootstrap_port());
    assert_eq!(params["remote_block_ids"][0].as_array().unwrap().len(), 6);
    assert_eq!(pair.held(), (1, 6));
    let answer = pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await;
    assert_eq!(text(&answer), plain_text(&body(prompt(0), 6, json!({}))).await);
    // Everything but the last token came from elsewhere.
    assert_eq!(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 83);
    pair.held_within(Duration::ZERO, (0, 0)).await;
    let hashes = |payload: &[u8]| decode(payload)[1][0]["block_hashes"].clone();
    let stored = hashes(&prefill_events.next().await.1);
    assert_eq!(stored.as_array().unwrap().len(), 5);
    assert_eq!(hashes(&decode_events.next().await.1), stored);
    assert_eq!(pair.counter(&pair.to_prefill, "mock:pulls_total").await, 1);
    assert_eq!(pair.counter(&pair.to_decode, "mock:fetches_total").await, 1);
    assert_eq!(pair.counter(&pair.to_decode, "vllm:external_prefix_cache_hits_total").await, 83);
    // Both sides have it cached now.
    let again = pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, json!({}))).await.json();
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 80);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_that_do_not_match_are_refused() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let params = prefill(&pair, prompt(0)).await;
    let changes = [
        ("remote_request_id", json!("cmpl-other"), "no prefill is held"),
        ("remote_engine_id", json!("other_dp0"), "the engine id differs"),
        ("remote_block_ids", json!([[1, 2, 3]]), "the block list differs"),
        ("remote_port", json!(1), "not reachable"),
    ];
    for (field, value, reason) in changes {
        let mut changed = params.clone();
        changed[field] = value;
        let answer = pair.to_decode.post("/v1/completions", &with_params(prompt(0), &changed)).await;
        assert_eq!(answer.status, 500, "{field}");
        assert!(answer.body.contains(reason), "{field}: {}", answer.body);
    }
    let answer = pair.to_decode.post("/v1/completions", &with_params(prompt(1), &params)).await;
    assert!(answer.status == 500 && answer.body.contains("the prompt differs"), "{}", answer.body);
    assert_eq!(pair.counter(&pair.to_prefill, "mock:refused_pulls_total").await, 4);
    assert_eq!(pair.counter(&pair.to_decode, "mock:failed_fetches_total").await, 5);
    // Nothing stays reserved on the decode side, and the right parameters still work, once.
    assert_eq!(pair.counter(&pair.to_decode, "vllm:kv_cache_usage_perc").await, 0);
    assert_eq!(pair.held(), (1, 6));
    text(&pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await);
    let twice = pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await;
    assert!(twice.status == 500 && twice.body.contains("no prefill is held"), "{}", twice.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_parameters_are_the_clients_fault() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let params = prefill(&pair, prompt(0)).await;
    for field in ["remote_request_id", "remote_engine_id", "remote_block_ids", "remote_host", "remote_port"] {
        let mut missing = params.clone();
        missing.as_object_mut().unwrap().remove(field);
        let answer = pair.to_decode.post("/v1/completions", &with_params(prompt(0), &missing)).await;
        assert!(answer.status == 400 && answer.body.contains(field), "{field}: {}", answer.body);
    }
    let both = json!({"kv_transfer_params": {"do_remote_decode": true, "do_remote_prefill": true}});
    assert_eq!(pair.to_decode.post("/v1/completions", &body(prompt(0), 1, both)).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_expire_and_can_then_not_be_pulled() {
    let transfer = TransferConfig { hold_timeout: Duration::from_millis(150), ..TransferConfig::default() };
    let pair = Pair::with(transfer, 1).await;
    let params = prefill(&pair, prompt(0)).await;
    assert_eq!(pair.held(), (1, 6));
    pair.held_within(Duration::from_secs(2), (0, 0)).await;
    assert_eq!(pair.counter(&pair.to_prefill, "mock:held_expired_total").await, 1);
    let late = pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await;
    assert!(late.status == 500 && late.body.contains("no prefill is held"), "{}", late.body);
    assert!(pair.prefill.app().transfers.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_blocks_are_not_evicted_by_other_work() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let params = prefill(&pair, prompt(0)).await;
    // More than the whole cache passes through.
    for number in 1..40 {
        let other: Vec<u32> = (0..1_000).map(|token| number * 1_000 + token).collect();
        text(&pair.to_prefill.post("/v1/completions", &body(other, 1, json!({}))).await);
    }
    text(&pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_complete_holds_nothing() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let mut request = body(prompt(0), 1, ask());
    request["vllm_xargs"] = json!({"mock_stop_after": 1});
    let answer = pair.to_prefill.post("/v1/completions", &request).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert!(answer["kv_transfer_params"].is_null());
    assert_eq!(pair.held(), (0, 0));
    assert!(pair.prefill.app().transfers.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_calls_leave_nothing_behind() {
    let transfer = TransferConfig { hold_timeout: Duration::from_millis(300), ..TransferConfig::default() };
    let pair = Pair::with(transfer, 1).await;
    // While the prefill waits: the engine stands still.
    pair.prefill.set_faults(mock_engine::Faults { hang: true, ..Default::default() });
    let request = body(prompt(0), 1, ask()).to_string();
    let call = pair.to_prefill.send("POST", "/v1/completions", &[], request);
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    pair.prefill.set_faults(Default::default());
    // While the decode side fetches: it waits for blocks that a hung engine never reserves.
    let params = prefill(&pair, prompt(100)).await;
    pair.decode.set_faults(mock_engine::Faults { hang: true, ..Default::default() });
    let request = with_params(prompt(100), &params).to_string();
    let call = pair.to_decode.send("POST", "/v1/completions", &[], request);
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    pair.decode.set_faults(Default::default());
    pair.held_within(Duration::from_secs(2), (0, 0)).await;
    let load = pair.decode.app().ranks[0].load();
    assert_eq!(load, (0, 0));
    assert_eq!(pair.decode.app().ranks[0].metrics().kv_usage, 0.0);
    assert!(pair.prefill.app().transfers.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_prefill_engine_and_a_refused_pull_fail_the_decode() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let params = prefill(&pair, prompt(0)).await;
    pair.prefill.set_faults(mock_engine::Faults { refuse_pulls: 1, ..Default::default() });
    assert_eq!(pair.to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await.status, 500);
    let Pair { prefill, to_decode, decode: _decode, .. } = pair;
    prefill.stop();
    let answer = to_decode.post("/v1/completions", &with_params(prompt(0), &params)).await;
    assert!(answer.status == 500 && answer.body.contains("not reachable"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_fetch_before_their_first_byte() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let params = prefill(&pair, prompt(0)).await;
    let mut request = with_params(prompt(0), &params);
    request["stream"] = json!(true);
    let answer = pair.to_decode.post("/v1/completions", &request).await;
    assert_eq!(answer.status, 200);
    let streamed: String =
        answer.chunks().iter().map(|c| c["choices"][0]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(streamed, plain_text(&body(prompt(0), 6, json!({}))).await);
    assert_eq!(pair.to_decode.post("/v1/completions", &request).await.status, 500, "an error, not a broken stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_is_no_tool_call() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    for (choice, limit, status) in [("required", 1, 400), ("required", 9, 200), ("auto", 1, 200)] {
        let request = body(prompt(0), limit, json!({"tool_choice": choice}));
        assert_eq!(pair.to_decode.post("/v1/completions", &request).await.status, status, "{choice} {limit}");
    }
}
