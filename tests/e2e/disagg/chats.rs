//! Every protocol, streaming and not.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::bridge::Worker;
use e2e::disagg::{self, Split, with_role};
use e2e::engine::{self, Engine};
use e2e::prompt::{self, message};
use e2e::recorder::Recorder;
use e2e::stack::{Options, Stack};
use mock_engine::{PdProtocol, Role};
use serde_json::{Value, json};

use super::{PROTOCOLS, config};

/// What a reader of an answer needs before asking on. An event is routable well within it.
const THINK_TIME: Duration = Duration::from_millis(50);

/// A conversation whose first message is long; `turn` makes its end different.
fn document(seed: u64, turn: u64, stream: bool) -> Value {
    let messages = [message("user", &prompt::text(seed, 800)), message("user", &prompt::text(1000 + turn, 10))];
    let mut document = prompt::chat("mock", &messages, 12);
    if stream {
        document["stream"] = true.into();
        document["stream_options"] = json!({"include_usage": true});
    }
    document
}

/// The text of an answer, streamed or not.
fn text(answer: &str) -> String {
    if !answer.starts_with("data: ") {
        let answer: Value = serde_json::from_str(answer).unwrap();
        return answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    }
    assert!(answer.trim_end().ends_with("data: [DONE]"), "{answer}");
    let chunks = answer.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let chunks = chunks.map(|data| serde_json::from_str::<Value>(data).unwrap());
    chunks.filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect()
}

async fn converse(protocol: PdProtocol) {
    let mut split = Split::start(&config(protocol), 2, 2).await;
    // An engine that does everything alone says what the answers must be.
    let alone = Engine::start(engine::config()).await;
    let mut sent = 0;
    for seed in [1, 2] {
        let mut targets = BTreeSet::new();
        for turn in 0..6 {
            let document = document(seed, turn, turn % 2 == 1);
            let answer = split.stack.chat(&document).await.expect_ok().text();
            let decision = split.stack.next_decision().await;
            let expected = split.stack.client.post(&alone.url("/v1/chat/completions"), &document).await;
            assert_eq!(text(&answer), text(&expected.expect("engine").expect_ok().text()), "{protocol:?}");
            let handoff =
                decision.handoff.unwrap_or_else(|| panic!("{protocol:?} was served whole: {:?}", decision.whole));
            assert!(split.decode.iter().any(|engine| engine.address() == decision.target));
            if turn > 0 {
                assert!(handoff.overlap.total() > 30, "turn {turn}: {handoff:?}");
            }
            targets.insert(handoff.prefill);
            sent += 1;
            tokio::time::sleep(THINK_TIME).await;
        }
        assert_eq!(targets.len(), 1, "a conversation is prefilled where its blocks are: {targets:?}");
    }
    assert_eq!(split.decoded("mock:fetches_total").await, sent, "{protocol:?}");
    assert_eq!(split.decoded("mock:failed_fetches_total").await, 0);
    assert_eq!(split.held_blocks(), 0);
    let counted = split.stack.envoy.stat("kv_router.handoff.decodes").await;
    assert_eq!((counted, split.stack.envoy.stat("kv_router.handoff.failed").await), (sent, 0));
}

#[tokio::test]
async fn nixl() {
    converse(PROTOCOLS[0]).await;
}

#[tokio::test]
async fn mooncake() {
    converse(PROTOCOLS[1]).await;
}

#[tokio::test]
async fn sglang() {
    converse(PROTOCOLS[2]).await;
}

#[tokio::test]
async fn trtllm() {
    converse(PROTOCOLS[3]).await;
}

/// Bodies that one engine or another refuses when they ask for one token.
#[tokio::test]
async fn limits_by_their_newer_name_and_demanded_tool_calls_are_handed_over() {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let named = json!({"type": "function", "function": {"name": "f"}});
    for protocol in PROTOCOLS {
        let mut split = Split::start(&config(protocol), 1, 1).await;
        let mut sent = 0;
        for choice in [Value::Null, "required".into(), "auto".into(), named.clone()] {
            for stream in [false, true] {
                let mut document = document(sent, 0, stream);
                let object = document.as_object_mut().unwrap();
                object.remove("max_tokens");
                object.insert("max_completion_tokens".into(), 5.into());
                if !choice.is_null() {
                    object.insert("tools".into(), json!([tool]));
                    object.insert("tool_choice".into(), choice.clone());
                }
                split.stack.chat(&document).await.expect_ok();
                let decision = split.stack.next_decision().await;
                assert!(decision.handoff.is_some(), "{protocol:?} {choice}: {:?}", decision.whole);
                sent += 1;
            }
        }
        let envoy = &split.stack.envoy;
        assert_eq!(split.decoded("mock:fetches_total").await, sent, "{protocol:?}");
        let odd = [envoy.stat("kv_router.handoff.failed").await, envoy.stat("kv_router.handoff.rejected").await];
        assert_eq!(odd, [0, 0], "{protocol:?}");
    }
}

/// Roles are told by labels, and the connector by the engines.
#[tokio::test]
async fn a_pool_that_is_told_neither_roles_nor_protocol_finds_them() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Mooncake] {
        let prefill = Engine::start(with_role(&config(protocol), Role::Prefill)).await;
        let decode = Engine::start(with_role(&config(protocol), Role::Decode)).await;
        let labelled = |engine: &Engine, role: &str| {
            let mut entry = engine.worker().entry();
            entry.as_object_mut().unwrap().remove("role").expect("a role");
            entry["labels"] = json!({"llm-d.ai/role": role});
            entry
        };
        let pool = json!({
            "workers_file": null,
            "workers": [labelled(&prefill, "prefill"), labelled(&decode, "decode")],
            "disaggregation": {"eds_file": "prefill-eds.json"},
        });
        let options = Options { envoy: disagg::envoy(protocol), pool, ..Options::default() };
        let mut stack = Stack::start(&[prefill.worker(), decode.worker()], options).await;
        stack.chat(&document(1, 0, false)).await.expect_ok();
        let handoff = stack.next_decision().await.handoff.expect("a hand-over");
        assert_eq!(serde_json::to_value(protocol).unwrap(), handoff.protocol);
        assert_eq!(decode.metric("mock:fetches_total").await, 1, "{protocol:?}");
    }
}

/// A sidecar at the decode engine has the prompt prefilled: it is told where, and gets the client's own body.
#[tokio::test]
async fn header_only() {
    let (prefill, decode) = (Recorder::start().await, Recorder::start().await);
    let worker = |recorder: &Recorder, role| Worker {
        address: recorder.address.to_string(),
        role: Some(role),
        ..Worker::default()
    };
    let pool = json!({"disaggregation": {"protocol": "header", "eds_file": "prefill-eds.json"}});
    let options = Options { envoy: disagg::envoy(PdProtocol::Nixl), pool, ..Options::default() };
    let mut stack = Stack::start(&[worker(&prefill, "prefill"), worker(&decode, "decode")], options).await;
    let documents = [document(1, 0, false), document(1, 1, true)];
    for document in &documents {
        stack.chat(document).await.expect_ok();
        let decision = stack.next_decision().await;
        assert_eq!(decision.target, decode.address.to_string());
        assert_eq!(decision.handoff.expect("a hand-off").prefill, prefill.address.to_string());
    }
    let seen = decode.seen();
    assert_eq!(seen.len(), documents.len());
    for (seen, document) in seen.iter().zip(&documents) {
        assert_eq!(seen.headers["x-prefiller-host-port"], prefill.address.to_string());
        assert_eq!(seen.body, serde_json::to_vec(document).unwrap());
    }
    assert!(prefill.seen().is_empty(), "the filter calls nobody");
}

/// Bodies that come in many pieces, are tokenized in slices, and are larger after the surgery than before.
#[tokio::test]
async fn long_prompts_are_handed_over_whole() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Sglang] {
        let mut split = Split::start(&config(protocol), 1, 1).await;
        let document = prompt::question("mock", 7, 60_000);
        let answer = split.stack.chat(&document).await.expect_ok().json();
        let decision = split.stack.next_decision().await;
        assert!(decision.handoff.is_some(), "{protocol:?}: {decision:?}");
        assert_eq!(answer["usage"]["prompt_tokens"], decision.tokens);
        assert_eq!(split.decoded("mock:fetches_total").await, 1);
    }
}

/// A policy may keep short prompts where they are decoded.
#[tokio::test]
async fn short_prompts_skip_the_prefill_hop() {
    let mut split = Split::start(&config(PdProtocol::Nixl), 1, 2).await;
    let rules = json!({"min_uncached_tokens": 256});
    let document = json!({"version": 1, "policies": {"p": {"mode": "kv", "disaggregation": rules}}, "default": "p"});
    split.stack.chat(&prompt::question("mock", 1, 10)).await.expect_ok();
    assert!(split.stack.next_decision().await.handoff.is_some());
    split.stack.bridge.put_policy(&document).await;
    split.stack.chat(&prompt::question("mock", 2, 10)).await.expect_ok();
    assert_eq!(split.stack.next_decision().await.whole.as_deref(), Some("short"));
    let long = prompt::question("mock", 3, 600);
    split.stack.chat(&long).await.expect_ok();
    assert!(split.stack.next_decision().await.handoff.is_some());
    // What was handed over once is cached at the decode engine now, so that little of it is uncached.
    tokio::time::sleep(THINK_TIME).await;
    split.stack.chat(&long).await.expect_ok();
    assert_eq!(split.stack.next_decision().await.whole.as_deref(), Some("short"));
}

/// The root context makes the prefill call: it has to be called at once, not with its next tick.
#[tokio::test]
async fn a_prefill_call_does_not_wait_for_a_tick() {
    const CALLS: u64 = 40;
    let split = Split::start(&config(PdProtocol::Nixl), 1, 1).await;
    for seed in 0..CALLS {
        split.stack.chat(&prompt::question("mock", seed, 20)).await.expect_ok();
    }
    let envoy = &split.stack.envoy;
    assert_eq!(envoy.stat("kv_router.handoff.prefills").await, CALLS);
    let waited = envoy.stat("kv_router.handoff.prefill_us").await / CALLS;
    println!("a prefill call of a short prompt took {waited} us on average");
    assert!(waited < 40_000, "{waited}");
}
