//! Requests that a real vLLM answered: body to prompt tokens through the filter's own path.

use std::path::PathBuf;

use kv_routing::block::{BlockSize, HashSeed, TokenId};
use kv_routing::openai::{Endpoint, PromptInput, parse};
use kv_routing::tokens::{HashPlan, Progress};
use kv_routing::wire::UnixMillis;
use serde_json::Value;

use crate::models::load;

const NOW: UnixMillis = UnixMillis(1_796_051_160_000);

#[test]
fn every_recorded_request_has_the_tokens_vllm_computed() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/vllm-real-frames.jsonl");
    let frames = std::fs::read_to_string(path).unwrap();
    let (mut core, _) = load("qwen2_5");
    // Blocks of one token, so that every token counts.
    let plan = HashPlan { block_size: BlockSize::new(1).unwrap(), seed: HashSeed::default() };
    let (mut chats, mut texts) = (0, 0);
    for line in frames.lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        let Some(endpoint) = frame["path"].as_str().and_then(Endpoint::of_path) else { continue };
        let body = serde_json::to_vec(&frame["request"]).unwrap();
        let request = parse(endpoint, &body).unwrap();
        match request.prompt {
            PromptInput::Chat(_) => chats += 1,
            PromptInput::Text(_) => texts += 1,
            PromptInput::Tokens(_) | PromptInput::Absent => continue,
        }
        let scenario = &frame["scenario"];
        let mut preparation = core.begin(&request, plan, NOW).unwrap_or_else(|error| panic!("{scenario}: {error}"));
        let prompt = loop {
            if let Progress::Done(prompt) = core.advance(&mut preparation, 50) {
                break prompt;
            }
        };
        let computed = &frame["usage"]["prompt_tokens"];
        assert_eq!(Some(u64::from(prompt.tokens)), computed.as_u64(), "{scenario}");
        let mut expected: Vec<TokenId> = ids(&frame["prompt_token_ids"]);
        if expected.len() != prompt.tokens as usize {
            // The recorder asked for these ids again without the tools; the engine's own event has what it computed, in
            // whole blocks.
            assert_eq!(scenario, "chat with tools");
            expected = ids(&frame["decoded"][1][0]["token_ids"]);
        }
        let chain = kv_routing::block::chain(&expected, plan.block_size, plan.seed);
        assert!(chain.len() + 16 > prompt.tokens as usize, "{scenario}");
        assert_eq!(prompt.chain.get(..chain.len()), Some(chain.as_slice()), "{scenario}");
    }
    assert_eq!(chats, 19, "chat requests in the recording");
    assert!(texts > 0, "text completions in the recording");
}

fn ids(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|id| TokenId(u32::try_from(id.as_u64().unwrap()).unwrap())).collect()
}
