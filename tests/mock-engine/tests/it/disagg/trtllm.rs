use mock_engine::PdProtocol;
use serde_json::{Value, json};

use super::{Pair, body, plain_text, prompt, text};

/// Not representable as a double.
const NUMBER: u64 = 9_007_199_254_740_993;

async fn context(pair: &Pair, request: Value, path: &str) -> Value {
    let mut request = request;
    request["disaggregated_params"] = json!({"request_type": "context_only", "disagg_request_id": NUMBER});
    let answer = pair.to_prefill.post(path, &request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// The parameters of a context answer, ready for the generation engine.
fn generation(answer: &Value) -> Value {
    let mut params = answer["choices"][0]["disaggregated_params"].clone();
    params["request_type"] = json!("generation_only");
    params
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generation_continues_the_context_engine() {
    let pair = Pair::start(PdProtocol::Trtllm).await;
    let answer = context(&pair, body(prompt(0), 9, json!({})), "/v1/completions").await;
    assert_eq!(answer["usage"]["completion_tokens"], 1, "the context engine stops after one token");
    let params = generation(&answer);
    assert!(params["ctx_request_id"].as_u64().unwrap() > 1 << 53);
    assert_eq!(params["disagg_request_id"], NUMBER);
    assert_eq!(answer["choices"][0]["prompt_token_ids"], json!(prompt(0)));
    assert_eq!(pair.held(), (1, 6));
    let request = body(prompt(0), 6, json!({"disaggregated_params": params}));
    let decode = pair.to_decode.post("/v1/completions", &request).await;
    assert_eq!(text(&decode), plain_text(&body(prompt(0), 6, json!({}))).await);
    assert_eq!(pair.held(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_generation_takes_the_prompts_ids_instead_of_rendering() {
    let pair = Pair::start(PdProtocol::Trtllm).await;
    let chat =
        json!({"model": "mock", "messages": [{"role": "user", "content": "Tell me about tides."}], "max_tokens": 5});
    let answer = context(&pair, chat.clone(), "/v1/chat/completions").await;
    let mut request = chat;
    request["disaggregated_params"] = generation(&answer);
    request["prompt_token_ids"] = answer["prompt_token_ids"].clone();
    // Proof that the ids are used: the messages say something else.
    request["messages"][0]["content"] = json!("Something else.");
    let decode = pair.to_decode.post("/v1/chat/completions", &request).await;
    assert_eq!(decode.status, 200, "{}", decode.body);
    assert_eq!(decode.json()["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_lost_their_low_bits_and_foreign_states_are_refused() {
    let pair = Pair::start(PdProtocol::Trtllm).await;
    let answer = context(&pair, body(prompt(0), 1, json!({})), "/v1/completions").await;
    let params = generation(&answer);
    let rounded = |field: &str| (params[field].as_u64().unwrap() as f64) as u64;
    let cases = [
        ("ctx_request_id", json!(rounded("ctx_request_id")), 500, "no prefill is held"),
        ("disagg_request_id", json!(rounded("disagg_request_id")), 500, "disagg_request_id differs"),
        ("first_gen_tokens", json!([1]), 500, "the first answer token differs"),
        ("encoded_opaque_state", json!("AQID"), 400, "encoded_opaque_state"),
        ("ctx_request_id", json!(1.5), 400, "ctx_request_id"),
        ("request_type", json!("generation"), 400, "request_type"),
    ];
    for (field, value, status, reason) in cases {
        let mut changed = params.clone();
        changed[field] = value.clone();
        let request = body(prompt(0), 6, json!({"disaggregated_params": changed}));
        let answer = pair.to_decode.post("/v1/completions", &request).await;
        assert!(answer.status == status && answer.body.contains(reason), "{field} {value}: {}", answer.body);
    }
    assert_eq!(pair.held(), (1, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_of_one_limit_are_refused() {
    let pair = Pair::start(PdProtocol::Trtllm).await;
    let chat = |limits: Value| {
        let mut chat = json!({"model": "mock", "messages": [{"role": "user", "content": "Tides?"}]});
        chat.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        chat
    };
    for (limits, status) in [
        (json!({"max_tokens": 2}), 200),
        (json!({"max_completion_tokens": 2}), 200),
        (json!({"max_tokens": 2, "max_completion_tokens": 2}), 400),
        (json!({"max_tokens": 2, "max_completion_tokens": null}), 400),
    ] {
        let answer = pair.to_decode.post("/v1/chat/completions", &chat(limits)).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let completion = body(prompt(0), 1, json!({"max_completion_tokens": 1}));
    assert_eq!(pair.to_decode.post("/v1/completions", &completion).await.status, 400);
}
