//! Chat requests that a real vLLM answered: the rendered prompt, tokenized by the Hugging Face library, must be the
//! prompt the engine computed.

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::path::Path;

use anyhow::{Context, Result};
use kv_routing::openai::{Endpoint, Exactness, PromptInput, parse};
use kv_routing::tokens::template::{ModelFiles, Renderer, RequestedFormat};
use kv_routing::wire::UnixMillis;
use serde_json::Value;
use tokenizers::Tokenizer;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn qwen() -> Result<(Renderer, Tokenizer)> {
    let dir = repository().join(".deps/tokenizers/qwen2_5");
    let config =
        std::fs::read(dir.join("tokenizer_config.json")).context("run `make setup` for the tokenizer files")?;
    let files = ModelFiles { tokenizer_config: Some(&config), ..ModelFiles::default() };
    let renderer = Renderer::compile(files.load(RequestedFormat::Auto)?)?;
    let tokenizer = Tokenizer::from_file(dir.join("tokenizer.json")).map_err(anyhow::Error::msg)?;
    Ok((renderer, tokenizer))
}

#[test]
fn recorded_chat_requests_have_the_tokens_vllm_computed() -> Result<()> {
    let (renderer, tokenizer) = qwen()?;
    let frames = std::fs::read_to_string(repository().join("tests/data/vllm-real-frames.jsonl"))?;
    let mut compared = 0;
    for line in frames.lines() {
        let frame: Value = serde_json::from_str(line)?;
        if frame["path"] != "/v1/chat/completions" {
            continue;
        }
        let scenario = frame["scenario"].as_str().unwrap_or_default();
        let body = serde_json::to_vec(&frame["request"])?;
        let request = parse(Endpoint::ChatCompletions, &body)?;
        assert_eq!(request.exactness, Exactness::Exact, "{scenario}");
        let PromptInput::Chat(chat) = &request.prompt else { panic!("{scenario}: no chat") };
        let rendered = renderer.render(chat, UnixMillis(1_796_051_160_000)).context(scenario.to_owned())?;
        assert_eq!(rendered.exact_bytes, rendered.text.len(), "{scenario}");
        let ids = tokenizer.encode(&*rendered.text, request.add_special_tokens).map_err(anyhow::Error::msg)?;
        let computed = frame["usage"]["prompt_tokens"].as_u64();
        assert_eq!(u64::try_from(ids.len()).ok(), computed, "{scenario}: {}", rendered.text);
        let expected: Vec<u32> = serde_json::from_value(frame["prompt_token_ids"].clone())?;
        if computed == u64::try_from(expected.len()).ok() {
            assert_eq!(ids.get_ids(), expected, "{scenario}: {}", rendered.text);
        } else {
            // The recorder asked for these ids again without the tools; the engine's own event has what it computed.
            assert_eq!(scenario, "chat with tools");
            let published: Vec<u32> = serde_json::from_value(frame["decoded"][1][0]["token_ids"].clone())?;
            assert_eq!(ids.get_ids().get(..published.len()), Some(&*published), "{scenario}: {}", rendered.text);
        }
        compared += 1;
    }
    assert_eq!(compared, 19, "chat requests in the recording");
    Ok(())
}
