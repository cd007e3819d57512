//! Chats of gpt-oss as the bridge renders them, against what vLLM's own code gave (`scripts/record-harmony-goldens.py`).

use event_bridge::tokenizer::{BridgeTokenizer, ModelFiles, RenderOptions};
use kv_routing::openai::{Endpoint, InferenceRequest, parse};
use kv_routing::wire::UnixMillis;
use serde_json::{Value, json};

use crate::models::files;

/// 2026-11-30, just before midnight in UTC.
const NOW: UnixMillis = UnixMillis(1_796_083_140_000);

fn gpt_oss() -> ModelFiles {
    ModelFiles { model_config: Some(br#"{"model_type": "gpt_oss"}"#.to_vec()), ..files("gptoss") }
}

fn tokens(tokenizer: &BridgeTokenizer, endpoint: Endpoint, body: &Value) -> Result<Vec<u32>, String> {
    let body = body.to_string();
    let request: InferenceRequest = parse(endpoint, body.as_bytes()).unwrap();
    let prompt = tokenizer.tokenize(&request, NOW).map_err(|error| error.to_string())?;
    Ok(prompt.tokens.iter().map(|token| token.0).collect())
}

#[test]
fn prompts_are_those_of_vllm() {
    assert!(BridgeTokenizer::renders_what_the_core_cannot(&gpt_oss()));
    let tokenizer = BridgeTokenizer::load(&gpt_oss(), &RenderOptions::default()).unwrap();
    let mut requests = 0;
    for line in include_str!("../data/harmony-goldens.jsonl").lines() {
        let golden: Value = serde_json::from_str(line).unwrap();
        let ours = tokens(&tokenizer, Endpoint::ChatCompletions, &golden["request"]);
        assert_eq!(ours.map(|tokens| json!(tokens)), Ok(golden["tokens"].clone()), "{}", golden["request"]);
        requests += 1;
    }
    assert_eq!(requests, 17);
}

#[test]
fn what_vllm_refuses_or_maps_otherwise_is_refused() {
    let tokenizer = BridgeTokenizer::load(&gpt_oss(), &RenderOptions::default()).unwrap();
    let refused = |endpoint, body: Value| tokens(&tokenizer, endpoint, &body).unwrap_err();
    let chat = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let completions = Endpoint::ChatCompletions;
    assert!(refused(completions, chat(json!({"reasoning_effort": "none"}))).contains("reasoning_effort `none`"));
    assert!(refused(completions, chat(json!({"chat_template": "x"}))).contains("chat template"));
    assert!(refused(completions, chat(json!({"tools": [{"type": "x"}]}))).contains("tool type"));
    assert!(refused(completions, json!({"messages": [{"role": "critic", "content": "x"}]})).contains("critic"));
    assert!(refused(Endpoint::Responses, json!({"input": "x"})).contains("/v1/chat/completions"));
    assert!(refused(Endpoint::Completions, json!({"prompt": "x"})).contains("only chats"));
}
