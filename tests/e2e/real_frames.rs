//! What a real vLLM was asked and what it published, through the real bridge and the real Envoy.

use std::fs;
use std::time::Duration;

use e2e::bridge::Worker;
use e2e::paths;
use e2e::player::Player;
use e2e::recorder::Recorder;
use e2e::stack::{Options, Stack};
use e2e::wait;
use serde_json::Value;

const BLOCK_SIZE: u32 = 32;
/// Records before the recorded engine was started anew, with few blocks.
const FIRST_LIFE: usize = 33;
/// A subscription reaches a PUB socket a moment after the connection; nothing tells when.
const SUBSCRIBED: Duration = Duration::from_millis(500);

fn recording() -> Vec<Value> {
    let text = fs::read_to_string(paths::data("vllm-real-frames.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Plays a record, and waits until Envoy holds what the bridge makes of it.
async fn play(stack: &Stack, player: &mut Player, record: &Value) {
    player.play(record).await.unwrap();
    wait::until("the bridge applies the frame", Duration::from_secs(5), async || {
        let workers = stack.bridge.get("/workers").await;
        let source = &workers["pools"][0]["workers"][0]["targets"][0]["source"];
        (source["last_seq"] == record["seq"]).then_some(())
    })
    .await;
    // One push interval and a little.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Sends the recorded request and returns the filter's count of its tokens and the blocks it believes are held.
async fn ask(stack: &mut Stack, record: &Value) -> (u64, u64) {
    let url = stack.envoy.url(record["path"].as_str().unwrap());
    stack.client.post(&url, &record["request"]).await.unwrap().expect_ok();
    let decision = stack.next_decision().await;
    assert_eq!(decision.blocks, decision.tokens / u64::from(BLOCK_SIZE));
    (decision.tokens, decision.overlap.total())
}

#[tokio::test]
async fn each_recorded_prompt_finds_the_blocks_the_real_engine_stored() {
    let mut player = Player::start().await.unwrap();
    let recorder = Recorder::start().await;
    let worker = Worker {
        address: recorder.address.to_string(),
        events: Some((player.endpoint().to_owned(), None)),
        ..Worker::default()
    };
    let options =
        Options { model: "tiny".into(), family: Some("qwen2_5"), block_size: BLOCK_SIZE, ..Options::default() };
    let mut stack = Stack::start(&[worker], options).await;
    tokio::time::sleep(SUBSCRIBED).await;

    let (mut asked, mut cached_before) = (0, 0);
    // A request that published several times, as one whose prefill was cut into chunks, has a record for each.
    for records in recording()[..FIRST_LIFE].chunk_by(|one, next| one["request"] == next["request"]) {
        let record = &records[0];
        let scenario = format!("{} {}", record["scenario"], record["seq"]);
        let tokens = record["usage"]["prompt_tokens"].as_u64().unwrap();

        // Before its frames, the index holds what the engine had: the engine itself said how much of the prompt that was.
        let (counted, held) = ask(&mut stack, record).await;
        assert_eq!(counted, tokens, "{scenario}");
        // The samples of one request find each other's blocks, so what is said of them is no statement about before.
        let cached = record["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        if let Some(cached) = cached.filter(|_| record["request"]["n"].is_null()) {
            // An engine always computes the last token of a prompt anew.
            let reusable = (tokens - 1) / u64::from(BLOCK_SIZE);
            assert_eq!(held.min(reusable) * u64::from(BLOCK_SIZE), cached, "{scenario}");
            cached_before += usize::from(cached > 0);
        }

        // After its frames, the engine has stored every full block of the prompt.
        for record in records {
            play(&stack, &mut player, record).await;
        }
        let (_, held) = ask(&mut stack, record).await;
        assert_eq!(held, tokens / u64::from(BLOCK_SIZE), "{scenario}");
        asked += 1;
    }
    println!("{asked} recorded requests, {cached_before} of which the engine had partly cached");
    assert!(asked >= 20 && cached_before >= 5, "{asked} {cached_before}");
}
