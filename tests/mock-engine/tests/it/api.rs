//! The OpenAI routes: shapes, streams, limits and errors.

use std::sync::Arc;

use mock_engine::{Adapter, EngineConfig, MockEngine};
use serde_json::{Value, json};

use crate::support::{Client, config, decode};
use crate::support::{Subscriber, qwen};

async fn start(config: EngineConfig) -> (MockEngine, Client) {
    let engine = MockEngine::start(config).await.unwrap();
    let client = Client::new(engine.http_addr());
    (engine, client)
}

fn chat(content: &str, more: Value) -> Value {
    let mut body = json!({"model": "mock", "messages": [{"role": "user", "content": content}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_whole_answer() {
    let (_engine, client) = start(config()).await;
    let whole = client.post("/v1/chat/completions", &chat("hello", json!({"max_tokens": 12}))).await.json();
    let body = chat("hello", json!({"max_tokens": 12, "stream": true, "stream_options": {"include_usage": true}}));
    let chunks = client.post("/v1/chat/completions", &body).await.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    let (usage, tokens) = chunks.split_last().unwrap();
    assert_eq!(tokens.last().unwrap()["choices"][0]["finish_reason"], "length");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 12);
    // 30 prompt tokens: one full block of 16, found by the second request.
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 16);
    assert!(tokens.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn completions_take_text_lists_and_tokens() {
    let (_engine, client) = start(config()).await;
    let tokens = |text: &str| qwen().encode(text, true).unwrap();
    let ask = |prompt: Value| {
        let client = &client;
        async move {
            let body = json!({"model": "mock", "prompt": prompt, "max_tokens": 3, "return_token_ids": true});
            client.post("/v1/completions", &body).await.json()
        }
    };
    let text = ask(json!("one two three")).await;
    let ids = ask(json!(tokens("one two three"))).await;
    assert_eq!(text["choices"], ids["choices"]);
    assert_eq!(text["choices"][0]["prompt_token_ids"], json!(tokens("one two three")));
    let both = ask(json!(["one two three", "four"])).await;
    let both_ids = ask(json!([tokens("one two three"), tokens("four")])).await;
    assert_eq!(both["choices"], both_ids["choices"]);
    assert_eq!(both["choices"][0]["text"], text["choices"][0]["text"]);
    assert_eq!(both["choices"][1]["index"], 1);
    assert_ne!(both["choices"][1]["text"], text["choices"][0]["text"]);
    assert_eq!(both["usage"]["completion_tokens"], 6);
    assert_eq!(both["usage"]["prompt_tokens"], tokens("one two three").len() + tokens("four").len());
}

#[tokio::test]
async fn streamed_choices_keep_their_index_and_ids() {
    let (_engine, client) = start(config()).await;
    let whole = json!({"model": "mock", "prompt": ["a b", "c d"], "n": 2, "max_tokens": 4, "return_token_ids": true});
    let mut streamed = whole.clone();
    streamed["stream"] = json!(true);
    let whole = client.post("/v1/completions", &whole).await.json();
    let chunks = client.post("/v1/completions", &streamed).await.chunks();
    for index in 0..4 {
        let of_choice = || chunks.iter().map(|c| &c["choices"][0]).filter(|choice| choice["index"] == index);
        let text: String = of_choice().map(|choice| choice["text"].as_str().unwrap()).collect();
        let ids: Vec<Value> = of_choice().flat_map(|choice| choice["token_ids"].as_array().unwrap().clone()).collect();
        assert_eq!(whole["choices"][index]["text"], text);
        assert_eq!(whole["choices"][index]["token_ids"], json!(ids));
        assert_eq!(of_choice().next().unwrap()["prompt_token_ids"], whole["choices"][index]["prompt_token_ids"]);
        assert!(of_choice().nth(1).unwrap()["prompt_token_ids"].is_null());
    }
}

#[tokio::test]
async fn the_answer_continues_the_cached_conversation() {
    let (_engine, client) = start(config()).await;
    let mut messages = vec![json!({"role": "user", "content": "Tell me a story about a lighthouse."})];
    let mut last_total = 0;
    for turn in 0..6 {
        let body = json!({"model": "mock", "messages": messages, "max_tokens": 40});
        let answer = client.post("/v1/chat/completions", &body).await.json();
        let usage = &answer["usage"];
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        // The last generated token was never computed; everything before it is cached, in whole blocks.
        let expected = if turn == 0 { 0 } else { (last_total - 1) / 16 * 16 };
        assert_eq!(cached, expected, "turn {turn}");
        last_total = usage["total_tokens"].as_u64().unwrap();
        messages.push(answer["choices"][0]["message"].clone());
        messages.push(json!({"role": "user", "content": format!("Go on, part {turn}.")}));
    }
}

#[tokio::test]
async fn an_answer_without_a_limit_ends_by_itself() {
    let (engine, client) = start(EngineConfig { natural_output_tokens: 5, ..config() }).await;
    let answer = client.post("/v1/chat/completions", &chat("hi", json!({"return_token_ids": true}))).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(
        (choice["finish_reason"].as_str(), answer["usage"]["completion_tokens"].as_u64()),
        (Some("stop"), Some(5))
    );
    assert_eq!(choice["token_ids"][4], json!(engine.model().eos()));
    assert!(!choice["message"]["content"].as_str().unwrap().contains("<|"));
    let early = chat("hi", json!({"max_tokens": 9, "vllm_xargs": {"mock_stop_after": 1}}));
    let answer = client.post("/v1/chat/completions", &early).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 1);
}

#[tokio::test]
async fn errors_have_vllms_shape() {
    let (_engine, client) = start(EngineConfig { max_model_len: Some(64), ..config() }).await;
    let long = vec![1; 64];
    let cases = [
        ("/v1/chat/completions", json!({"model": "nobody", "messages": []}), 404, "NotFoundError"),
        ("/v1/chat/completions", json!({"model": "mock", "messages": []}), 400, "BadRequestError"),
        ("/v1/chat/completions", json!({"model": "mock", "messages": [{"content": "x"}]}), 400, "BadRequestError"),
        ("/v1/chat/completions", chat("x", json!({"max_tokens": 0})), 400, "BadRequestError"),
        ("/v1/chat/completions", chat("x", json!({"max_tokens": 60})), 400, "BadRequestError"),
        ("/v1/chat/completions", chat("x", json!({"stream_options": {"include_usage": true}})), 400, "BadRequestError"),
        ("/v1/chat/completions", chat("x", json!({"cache_salt": ""})), 400, "BadRequestError"),
        ("/v1/completions", json!({"model": "mock"}), 400, "BadRequestError"),
        ("/v1/completions", json!({"model": "mock", "prompt": long}), 400, "BadRequestError"),
        ("/v1/completions", json!({"model": "mock", "prompt": [99_999_999]}), 400, "BadRequestError"),
        ("/tokenize", json!({"model": "nobody", "prompt": "x"}), 404, "NotFoundError"),
    ];
    for (path, body, status, kind) in cases {
        let answer = client.post(path, &body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!((error["type"].as_str(), error["code"].as_u64()), (Some(kind), Some(u64::from(status))), "{body}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let broken = client.send("POST", "/v1/completions", &[], "{\"model\":".to_owned()).await.unwrap();
    assert_eq!((broken.status, broken.json()["error"]["type"].as_str()), (400, Some("BadRequestError")));
    assert_eq!(client.get("/nowhere").await.status, 404);
}

#[tokio::test]
async fn tokenize_answers_both_forms_with_the_tokens_generation_uses() {
    let (_engine, client) = start(config()).await;
    let body = chat("Good morning!", json!({"max_tokens": 1, "return_token_ids": true}));
    let answer = client.post("/v1/chat/completions", &body).await.json();
    let tokens = client.post("/tokenize", &chat("Good morning!", json!({}))).await.json();
    assert_eq!(tokens["tokens"], answer["prompt_token_ids"]);
    assert_eq!(tokens["count"], answer["usage"]["prompt_tokens"]);
    let text = client.post("/tokenize", &json!({"prompt": "Good morning!", "return_token_strs": true})).await.json();
    assert_eq!(text["token_strs"], json!(["Good", "Ġmorning", "!"]));
    let back = client.post("/detokenize", &json!({"tokens": text["tokens"]})).await.json();
    assert_eq!(back["prompt"], "Good morning!");
}

#[tokio::test]
async fn adapters_are_models_with_a_cache_of_their_own() {
    let adapter = Arc::new(Adapter { id: 1, name: "sql".to_owned(), path: "/weights/sql".to_owned() });
    let (engine, client) = start(EngineConfig { adapters: vec![adapter], ..config() }).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    let models = client.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "mock");
    assert_eq!(models["data"][1]["id"], "sql");
    assert_eq!(models["data"][1]["parent"], "mock");
    let body = |model: &str| json!({"model": model, "prompt": (0..32).collect::<Vec<u32>>(), "max_tokens": 1});
    client.post("/v1/completions", &body("mock")).await;
    let answer = client.post("/v1/completions", &body("sql")).await.json();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    subscriber.next().await;
    let event = decode(&subscriber.next().await.1)[1][0].clone();
    assert_eq!((event["lora_name"].as_str(), event["lora_id"].as_u64()), (Some("sql"), Some(1)));
    assert_eq!(event["extra_keys"], json!([["sql"], ["sql"]]));
}

#[tokio::test]
async fn the_header_chooses_the_rank_and_ranks_share_nothing() {
    let (engine, client) = start(EngineConfig { data_parallel_size: 2, ..config() }).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint_of(1).unwrap()).await;
    let body = json!({"model": "mock", "prompt": (0..40).collect::<Vec<u32>>(), "max_tokens": 1});
    let ask = |rank: &'static str| {
        let (client, body) = (&client, body.to_string());
        async move { client.send("POST", "/v1/completions", &[("X-data-parallel-rank", rank)], body).await.unwrap() }
    };
    let cached =
        |answer: &crate::support::Answer| answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    assert_eq!(cached(&ask("1").await), 0);
    assert_eq!(cached(&ask("0").await), 0);
    assert_eq!(cached(&ask("1").await), 32);
    assert_eq!(ask("2").await.status, 400);
    assert_eq!(ask("x").await.status, 400);
    let (sequence, payload) = subscriber.next().await;
    assert_eq!((sequence, decode(&payload)[2].as_u64()), (0, Some(1)), "rank 1 publishes on its own stream");
    let metrics = client.get("/metrics").await.body;
    assert!(metrics.contains("vllm:prefix_cache_hits_total{engine=\"1\",model_name=\"mock\"} 32.0"), "{metrics}");
    assert!(metrics.contains("vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"mock\"} 0.0"));
}
