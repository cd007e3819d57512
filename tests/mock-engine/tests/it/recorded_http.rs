//! The whole engine, asked over HTTP what a real vLLM was asked: same prompt tokens, same cached tokens, same blocks.

use std::time::Duration;

use mock_engine::events::KvEvent;
use mock_engine::{EngineConfig, MockEngine};
use serde_json::Value;

use crate::recorded::HASH_SEED;
use crate::recorded_data::{Recorded, lives};
use crate::support::{Client, Subscriber, config, decode};

async fn engine(num_blocks: u32) -> MockEngine {
    let config = EngineConfig {
        served_model_names: vec!["tiny".to_owned()],
        block_size: 32,
        num_blocks,
        max_num_batched_tokens: 2048,
        hash_seed: HASH_SEED.to_owned(),
        ..config()
    };
    MockEngine::start(config).await.unwrap()
}

/// Hashes of the recorded blocks that lie wholly in the prompt: answers differ, so later blocks do too.
fn recorded_prompt_blocks(recorded: &Recorded, cached: u64) -> Vec<u64> {
    let stored = recorded.frames.iter().flat_map(|frame| &frame.events).filter_map(|event| match event {
        KvEvent::Stored(stored) => Some(stored.block_hashes.iter().copied()),
        _ => None,
    });
    let fresh = (recorded.prompt.len() as u64 - cached) / 32;
    stored.flatten().take(fresh as usize).collect()
}

async fn announced_blocks(subscriber: &mut Subscriber, at_least: usize) -> (Vec<u64>, Vec<Value>) {
    let (mut hashes, mut events) = (Vec::new(), Vec::new());
    loop {
        let wait = if hashes.len() < at_least { Duration::from_secs(5) } else { Duration::from_millis(1) };
        let Some((_, payload)) = subscriber.next_within(wait).await else { return (hashes, events) };
        let batch = decode(&payload);
        for event in batch[1].as_array().unwrap() {
            if event["type"] == "BlockStored" {
                hashes.extend(event["block_hashes"].as_array().unwrap().iter().map(|hash| hash.as_u64().unwrap()));
            }
            events.push(event.clone());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_usage_and_blocks_equal_the_recording() {
    let engine = engine(2048).await;
    let client = Client::new(engine.http_addr());
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    let [ordinary, _] = lives();
    for recorded in &ordinary {
        let answer = client.post(&recorded.path, &recorded.request).await;
        assert_eq!(answer.status, 200, "{}: {}", recorded.scenario, answer.body);
        let answer = answer.json();
        let ids = if recorded.path.ends_with("chat/completions") { &answer } else { &answer["choices"][0] };
        let ids: Vec<u32> = serde_json::from_value(ids["prompt_token_ids"].clone()).unwrap();
        assert_eq!(ids, recorded.prompt, "{}", recorded.scenario);
        assert_eq!(answer["usage"], recorded.usage, "{}", recorded.scenario);
        let cached = recorded.usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        // Of two samples the second one hits what the first one stored.
        let cached = if recorded.request["n"] == 2 { 0 } else { cached };
        let expected = recorded_prompt_blocks(recorded, cached);
        let (announced, _) = announced_blocks(&mut subscriber, expected.len()).await;
        assert_eq!(announced[..expected.len()], expected, "{}", recorded.scenario);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_and_reset_equal_the_recording() {
    let engine = engine(128).await;
    let client = Client::new(engine.http_addr());
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    let [_, evicting] = lives();
    for recorded in &evicting {
        if recorded.scenario == "after reset" {
            assert_eq!(client.post("/reset_prefix_cache", &Value::Null).await.status, 200);
        }
        let answer = client.post(&recorded.path, &recorded.request).await.json();
        assert_eq!(answer["usage"], recorded.usage, "{}", recorded.scenario);
        let (sequence, payload) = subscriber.next().await;
        let frame = &recorded.frames[0];
        assert_eq!(sequence, frame.sequence);
        // Everything after the timestamp is equal to the byte: 700 tokens and 2 answers never fill another block.
        assert_eq!(payload[10..], frame.payload[10..], "{}", recorded.scenario);
    }
}
