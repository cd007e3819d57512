//! Prompts that the bridge tokenizes, because the core cannot.

use filter::host::fake::{Exchange, FakeAnswer, FakeStream};
use kv_routing::block::SequenceHash;
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::{BridgeShare, Tokenized};

use crate::stage::{Stage, Thread, answer, call, chain_of, completion, route};

const BODY: &[u8] = br#"{"model":"base","prompt":"some words"}"#;
const CHAT: &[u8] = br#"{"model":"base","messages":[{"role":"user","content":"hi"}]}"#;

fn staged(bridge: BridgeShare) -> Stage {
    let mut stage = Stage::empty();
    stage.envoy.clusters.borrow_mut().insert("kv-bridge".to_owned());
    stage.pools[0].bridge = bridge;
    stage.index.store(Slot(3), Tier::Device, None, &chain_of(0..64));
    stage.push();
    stage.envoy.pass(10);
    stage
}

fn tokenized(chain: Vec<SequenceHash>) -> FakeAnswer {
    let tokens = chain.len() as u32 * 16 + 5;
    FakeAnswer::of(200, &Tokenized { tokens, exact_tokens: tokens, chain }.encode().unwrap())
}

/// Asserts that the ladder applied, and why.
fn fell_back(stage: &Stage, exchange: &Exchange, counter: &str) {
    assert!(exchange.is_released(&stage.threads[0].host));
    let decision = stage.decision(0, exchange);
    assert_eq!((&decision["rung"], &decision["blocks"]), (&"prefix_hash".into(), &0.into()));
    assert!(decision.get("tokenized_by").is_none(), "{decision}");
    assert_eq!((stage.envoy.count(counter), stage.envoy.count("bridge_tokenized")), (1, 0));
}

#[test]
fn what_the_bridge_makes_of_it_finds_its_blocks_and_says_who_made_it() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, BODY);
    assert!(!exchange.is_released(&stage.threads[0].host));
    let asked = call(&stage, &exchange);
    assert_eq!((&*asked.cluster, asked.timeout_ms, &*asked.body), ("kv-bridge", 250, BODY));
    assert_eq!(asked.header(":path"), Some("/v1/tokenize?block_size=16&path=/v1/completions"));
    assert_eq!((asked.header("x-kv-pool"), asked.header("x-kv-adapter")), (Some("pool"), None));
    answer(&mut stage, &exchange, tokenized(chain_of(0..64)));
    let decision = stage.decision(0, &exchange);
    assert_eq!((&decision["rung"], &decision["overlap"]["device"]), (&"exact".into(), &4.into()));
    assert_eq!((&decision["tokens"], &decision["blocks"]), (&69.into(), &4.into()));
    assert_eq!(decision["tokenized_by"], "bridge");
    assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.3:8000");
    assert_eq!(stage.envoy.count("bridge_tokenized"), 1);
    stage.finish(0, &exchange);
}

#[test]
fn an_adapter_is_named() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, br#"{"model":"lora","prompt":"some words"}"#);
    assert_eq!(call(&stage, &exchange).header("x-kv-adapter"), Some("lora"));
}

#[test]
fn every_way_to_fail_leaves_the_ladder() {
    let cases = [
        (FakeAnswer::reset(), "inexact.bridge_failed"),
        (FakeAnswer::of(503, b""), "inexact.bridge_failed"),
        (FakeAnswer::of(200, b"not what was asked for"), "inexact.bridge_failed"),
        (FakeAnswer::of(200, b""), "inexact.bridge_failed"),
        (FakeAnswer::of(504, b""), "inexact.bridge_late"),
        (FakeAnswer::of(422, b"{}"), "inexact.prompt"),
    ];
    for (given, counter) in cases {
        let mut stage = staged(BridgeShare::All);
        let exchange = stage.request(0, BODY);
        answer(&mut stage, &exchange, given);
        fell_back(&stage, &exchange, counter);
        stage.finish(0, &exchange);
    }
}

#[test]
fn a_cluster_that_is_not_configured_leaves_the_ladder() {
    let mut stage = staged(BridgeShare::All);
    stage.config = route(r#"{"role":"route","bridge_cluster":"elsewhere"}"#);
    let exchange = stage.request(0, BODY);
    fell_back(&stage, &exchange, "inexact.bridge_failed");
}

#[test]
fn only_what_the_core_cannot_do_goes_to_the_bridge() {
    for (share, text, chat) in [(BridgeShare::None, 0, 0), (BridgeShare::Chats, 0, 1), (BridgeShare::All, 1, 1)] {
        let mut stage = staged(share);
        let sent = |stage: &Stage, exchange: &Exchange| exchange.calls(&stage.threads[0].host).len();
        let exchange = stage.request(0, BODY);
        assert_eq!(sent(&stage, &exchange), text, "{share:?}");
        let exchange = stage.open(0, "/v1/chat/completions", &[]);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.body(host, vm, CHAT, true);
        assert_eq!(sent(&stage, &exchange), chat, "{share:?}");
        let exchange = stage.request(0, &completion("base", 0..64));
        assert_eq!(sent(&stage, &exchange), 0, "token ids need no tokenizer");
        assert_eq!(stage.decision(0, &exchange)["rung"], "exact");
    }
}

#[test]
fn a_body_only_the_engine_can_resolve_is_not_sent() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, br#"{"model":"base","prompt":"some words","truncate_prompt_tokens":7}"#);
    fell_back(&stage, &exchange, "inexact.body");
}

#[test]
fn a_client_that_leaves_meanwhile_is_forgotten() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, BODY);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    let seen: FakeStream = exchange.done(host, vm);
    assert!(!seen.is_released());
    assert!(host.sent.borrow().is_empty(), "Envoy drops the call with its stream");
    assert_eq!((stage.envoy.count("unrouted.ended_early"), stage.envoy.count("routed")), (1, 0));
}

#[test]
fn a_request_that_envoy_answered_meanwhile_is_not_resumed() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, BODY);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 408, None);
    answer(&mut stage, &exchange, tokenized(chain_of(0..64)));
    let Thread { host, vm, .. } = &mut stage.threads[0];
    assert!(!exchange.done(host, vm).is_released());
    assert_eq!(stage.envoy.count("routed"), 0);
}

#[test]
fn trailers_and_late_pieces_wait_with_the_rest() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.open(0, "/v1/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, BODY, false);
    exchange.trailers(host, vm);
    assert!(!exchange.is_released(host));
    exchange.body(host, vm, b"", true);
    assert!(!exchange.is_released(host));
    answer(&mut stage, &exchange, tokenized(chain_of(0..64)));
    assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.3:8000");
}

#[test]
fn other_requests_go_on_and_answers_find_their_own() {
    let mut stage = staged(BridgeShare::All);
    let first = stage.request(0, BODY);
    let second = stage.request(0, BODY);
    let third = stage.request(0, &completion("base", 0..64));
    assert!(third.is_released(&stage.threads[0].host));
    answer(&mut stage, &second, tokenized(Vec::new()));
    assert!(second.is_released(&stage.threads[0].host) && !first.is_released(&stage.threads[0].host));
    answer(&mut stage, &first, tokenized(chain_of(0..32)));
    assert_eq!(stage.decision(0, &first)["blocks"], 2);
    assert_eq!(stage.decision(0, &second)["blocks"], 0);
}

#[test]
fn the_pool_as_it_is_when_the_answer_comes_decides() {
    let mut stage = staged(BridgeShare::All);
    let exchange = stage.request(0, BODY);
    stage.targets.truncate(1);
    stage.push();
    stage.envoy.pass(10);
    answer(&mut stage, &exchange, tokenized(chain_of(0..64)));
    assert_eq!(stage.endpoints(0, &exchange), ["10.0.0.1:8000"]);
}
