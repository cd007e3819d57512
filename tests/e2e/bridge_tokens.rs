//! A tokenizer the filter does not support: the bridge tokenizes at the filter's request.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::engine::{self, Engine};
use e2e::paths;
use e2e::prompt::{self, message};
use e2e::scratch::Scratch;
use e2e::stack::{Options, Stack};
use mock_engine::{EngineConfig, ModelSource};
use serde_json::{Value, json};

/// An event is routable well within it.
const THINK_TIME: Duration = Duration::from_millis(50);

/// Qwen3, but with digits taken in twos, as no known model has it.
fn unknown_model(scratch: &Scratch) -> PathBuf {
    let from = paths::model_dir("qwen3");
    let read = |name: &str| fs::read(from.join(name)).unwrap();
    let mut tokenizer: Value = serde_json::from_slice(&read("tokenizer.json")).unwrap();
    let pattern = tokenizer.pointer_mut("/pre_tokenizer/pretokenizers/0/pattern/Regex").unwrap();
    let changed = pattern.as_str().unwrap().replace(r"|\p{N}|", r"|\p{N}{1,2}|");
    assert_ne!(changed, pattern.as_str().unwrap());
    *pattern = json!(changed);
    let dir = scratch.path("model");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(dir.join("tokenizer_config.json"), read("tokenizer_config.json")).unwrap();
    dir
}

async fn stack(model: &Path, workers: &[Engine]) -> Stack {
    let workers: Vec<_> = workers.iter().map(Engine::worker).collect();
    Stack::start(&workers, Options { family: None, pool: json!({"model_dir": model}), ..Options::default() }).await
}

#[tokio::test]
async fn prompts_of_an_unknown_tokenizer_are_matched_exactly_and_say_who_did_it() {
    let scratch = Scratch::new();
    let model = unknown_model(&scratch);
    let config = EngineConfig { model: ModelSource::Dir(model.clone()), ..engine::config() };
    let engines = Engine::start_many(2, &config).await;
    let mut stack = stack(&model, &engines).await;
    let pools = stack.bridge.get("/workers").await;
    let tokenizer = &pools["pools"][0]["tokenizer"];
    assert_eq!(tokenizer["status"], "bridge");
    assert!(tokenizer["why"].as_str().unwrap().contains("N}{1,2}"), "{tokenizer}");

    let numbers: String = (0..400).map(|number| format!("{} ", number * 7919)).collect();
    let chat = prompt::chat("mock", &[message("user", &(prompt::text(1, 200) + &numbers))], 1);
    let answer = stack.chat(&chat).await.expect_ok().json();
    let placed = stack.next_decision().await;
    assert_eq!(answer["usage"]["prompt_tokens"], placed.tokens, "the bridge counts tokens as the engine does");
    assert_eq!(placed.tokenized_by.as_deref(), Some("bridge"));
    for _ in 0..4 {
        tokio::time::sleep(THINK_TIME).await;
        let answer = stack.chat(&chat).await.expect_ok().json();
        let again = stack.next_decision().await;
        assert_eq!((again.rung.as_str(), again.overlap.total()), ("exact", placed.blocks));
        assert_eq!(again.target, placed.target);
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], again.predicted_cached_tokens(16));
    }
    let completion = json!({"model": "mock", "prompt": numbers, "max_tokens": 1});
    let answer = stack.complete(&completion).await.expect_ok().json();
    let text = stack.next_decision().await;
    assert_eq!(
        (answer["usage"]["prompt_tokens"].as_u64(), text.tokenized_by.as_deref()),
        (Some(text.tokens), Some("bridge"))
    );
    assert_eq!(stack.envoy.stat("kv_router.bridge_tokenized").await, 6);

    // Without the bridge the ladder applies, and no request fails.
    stack.bridge.kill().await;
    stack.chat(&chat).await.expect_ok();
    let alone = stack.next_decision().await;
    assert_eq!((alone.rung.as_str(), alone.blocks, alone.tokenized_by), ("prefix_hash", 0, None));
    assert_eq!(stack.envoy.stat("kv_router.inexact.bridge_failed").await, 1);
}
