use std::time::Duration;

use mock_engine::{PdProtocol, TransferConfig};
use serde_json::{Value, json};

use super::{Pair, body, plain_text, prompt, text};

/// Above 2^53: rooms must survive as integers.
const ROOM: u64 = 9_007_199_254_740_993;

fn triple(pair: &Pair, room: u64) -> Value {
    json!({"bootstrap_host": "127.0.0.1", "bootstrap_port": pair.bootstrap_port(), "bootstrap_room": room})
}

fn transfer(rendezvous: Duration) -> TransferConfig {
    TransferConfig { protocol: PdProtocol::Sglang, rendezvous_timeout: rendezvous, ..TransferConfig::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_made_at_once_meet_and_the_decode_side_answers() {
    let pair = Pair::start(PdProtocol::Sglang).await;
    let request = body(prompt(0), 6, triple(&pair, ROOM));
    let (prefill, decode) = tokio::join!(
        pair.to_prefill.post("/v1/completions", &request),
        pair.to_decode.post("/v1/completions", &request)
    );
    assert_eq!(text(&decode), plain_text(&body(prompt(0), 6, json!({}))).await);
    assert_eq!(prefill.json()["usage"]["completion_tokens"], 1, "the prefill side stops after one token");
    assert_eq!(pair.held(), (0, 0));
    assert!(pair.prefill.app().transfers.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_the_prefill_answer_before_decoding_deadlocks() {
    let pair = Pair::with(transfer(Duration::from_secs(20)), 1).await;
    let request = body(prompt(0), 6, triple(&pair, ROOM));
    let prefill = pair.to_prefill.post("/v1/completions", &request);
    tokio::pin!(prefill);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut prefill).await.is_err(), "no answer without decode");
    assert_eq!(pair.prefill.app().ranks[0].metrics().time_to_first_token.count(), 0, "not even computed");
    let (prefill, decode) = tokio::join!(prefill, pair.to_decode.post("/v1/completions", &request));
    assert_eq!((prefill.status, decode.status), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_side_that_stays_alone_gives_up() {
    let pair = Pair::with(transfer(Duration::from_millis(150)), 1).await;
    let request = body(prompt(0), 6, triple(&pair, ROOM));
    let prefill = pair.to_prefill.post("/v1/completions", &request).await;
    assert!(prefill.status == 500 && prefill.body.contains("both calls must be made at once"), "{}", prefill.body);
    let decode = pair.to_decode.post("/v1/completions", &request).await;
    assert!(decode.status == 500 && decode.body.contains("are both calls made at once?"), "{}", decode.body);
    assert!(pair.prefill.app().transfers.is_empty());
    assert_eq!(pair.held(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_meet_in_rooms_of_their_own() {
    let pair = Pair::start(PdProtocol::Sglang).await;
    let port = pair.bootstrap_port();
    let batch = json!({
        "model": "mock", "prompt": [prompt(0), prompt(500)], "max_tokens": 4,
        "bootstrap_host": ["127.0.0.1", "127.0.0.1"], "bootstrap_port": [port, port], "bootstrap_room": [1, 2],
    });
    let (prefill, decode) =
        tokio::join!(pair.to_prefill.post("/v1/completions", &batch), pair.to_decode.post("/v1/completions", &batch));
    assert_eq!((prefill.status, decode.status), (200, 200), "{}", decode.body);
    for (index, from) in [(0, 0), (1, 500)] {
        let alone = plain_text(&body(prompt(from), 4, json!({}))).await;
        assert_eq!(decode.json()["choices"][index]["text"], alone);
    }
    let mut scalar = batch.clone();
    scalar["bootstrap_room"] = json!(1);
    assert_eq!(pair.to_prefill.post("/v1/completions", &scalar).await.status, 400, "one room for two prompts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_room_decides_the_rank() {
    let pair = Pair::with(transfer(Duration::from_secs(5)), 2).await;
    let request = body(prompt(0), 2, triple(&pair, 7));
    let prefill =
        pair.to_prefill.send("POST", "/v1/completions", &[("x-data-parallel-rank", "1")], request.to_string());
    let (prefill, decode) = tokio::join!(prefill, pair.to_decode.post("/v1/completions", &request));
    assert_eq!((prefill.unwrap().status, decode.status), (200, 200));
    let finished = |rank: usize| pair.prefill.app().ranks[rank].metrics().finished_length;
    assert_eq!((finished(0), finished(1)), (0, 1));
    let wrong = pair.to_prefill.send("POST", "/v1/completions", &[("x-data-parallel-rank", "0")], request.to_string());
    assert_eq!(wrong.await.unwrap().status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_a_room_are_refused_and_the_role_is_told() {
    let pair = Pair::start(PdProtocol::Sglang).await;
    for client in [&pair.to_prefill, &pair.to_decode] {
        let answer = client.post("/v1/completions", &body(prompt(0), 1, json!({}))).await;
        assert!(answer.status == 400 && answer.body.contains("bootstrap room"), "{}", answer.body);
    }
    let info = pair.to_prefill.get("/server_info").await.json();
    assert_eq!(info["disaggregation_mode"], "prefill");
    assert_eq!(info["disaggregation_bootstrap_port"], pair.bootstrap_port());
    let events = &info["kv_events"];
    assert!(events["endpoint_port_base"].as_u64() > Some(0) && events["dp_size"] == 1, "{events}");
    assert_eq!(pair.to_decode.get("/get_server_info").await.json()["disaggregation_mode"], "decode");
}
