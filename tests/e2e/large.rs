//! Prompts far beyond Envoy's default buffer, and prompts below one block.

use e2e::bridge::Worker;
use e2e::prompt;
use e2e::recorder::Recorder;
use e2e::stack::{Options, Stack};
use serde_json::json;

async fn recorded() -> (Stack, Recorder) {
    let recorder = Recorder::start().await;
    let worker = Worker { address: recorder.address.to_string(), events: None, ..Worker::default() };
    (Stack::start(&[worker], Options::default()).await, recorder)
}

#[tokio::test]
async fn a_prompt_of_100_000_tokens_arrives_whole_and_routed() {
    let (mut stack, recorder) = recorded().await;
    let document = prompt::question("mock", 7, 50_000);
    stack.chat(&document).await.expect_ok();
    assert_eq!(recorder.only().body, document.to_string());
    let decision = stack.next_decision().await;
    assert!(decision.tokens >= 100_000, "{} tokens", decision.tokens);
    assert_eq!(decision.blocks, decision.tokens / 16);
}

#[tokio::test]
async fn a_body_of_8_mb_arrives_whole_and_routed() {
    let (mut stack, recorder) = recorded().await;
    // What makes real bodies this large is an image; the prompt beside it is of ordinary length.
    let image = format!("data:image/png;base64,{}", "iVBORw0KGgoAAAANSUhEUgAA".repeat(8_000_000 / 24));
    let document = json!({"model": "mock", "messages": [{"role": "user", "content": [
        {"type": "text", "text": prompt::text(3, 2_000)},
        {"type": "image_url", "image_url": {"url": image}},
    ]}]});
    let body = document.to_string();
    assert!(body.len() > 8_000_000);
    stack.chat(&document).await.expect_ok();
    let seen = recorder.only();
    assert_eq!(seen.body.len(), body.len());
    assert!(seen.body == body);
    assert_eq!(seen.headers["x-gateway-destination-endpoint"], recorder.address.to_string());
    stack.next_decision().await;
}

/// The same size in text: two million tokens.
#[tokio::test]
async fn a_text_of_8_mb_arrives_whole_and_routed() {
    let (mut stack, recorder) = recorded().await;
    let mut text = prompt::text(4, 1_300_000);
    text.truncate(8_000_000);
    assert_eq!(text.len(), 8_000_000);
    let document = prompt::chat("mock", &[prompt::message("user", &text)], 1);
    stack.chat(&document).await.expect_ok();
    assert!(recorder.only().body == document.to_string());
    stack.next_decision().await;
}

/// 31 tokens at a block size of 32 are no full block, so there is nothing to look up: load decides.
#[tokio::test]
async fn a_prompt_of_31_tokens_is_routed_by_load() {
    let recorder = Recorder::start().await;
    let worker = Worker { address: recorder.address.to_string(), events: None, ..Worker::default() };
    let mut stack = Stack::start(&[worker], Options { block_size: 32, ..Options::default() }).await;
    let ids: Vec<u32> = (1000..1031).collect();
    stack.complete(&prompt::token_ids("mock", &ids, 1)).await.expect_ok();
    let decision = stack.next_decision().await;
    assert_eq!((decision.tokens, decision.blocks, decision.rung.as_str()), (31, 0, "load"));
}
