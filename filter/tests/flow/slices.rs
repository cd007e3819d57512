//! Prompts that are tokenized, in one piece or in slices with other requests between.

use filter::held::{SLICE_TICK_MS, TICK_MS};
use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::target::{Slot, Tier};
use kv_routing::tokens::image::{Digits, Family, Meta, ModelFlags, Normalizer, Pattern, UnicodeVersion};
use kv_routing::tokens::table::Class;
use kv_routing::tokens::{Parts, assemble};
use kv_routing::wire::{TokenizerRef, keys};

use crate::stage::{BLOCK, Stage, Thread, completion, route};

/// Unicode class of a code point, as far as ASCII goes.
fn class(code: u32) -> u8 {
    match u8::try_from(code) {
        Ok(b'a'..=b'z') => Class::Lower as u8,
        Ok(b'0'..=b'9') => Class::Number as u8,
        Ok(b' ') => Class::Space as u8,
        _ => Class::Other as u8,
    }
}

/// A tokenizer of words in which every byte is a token.
fn bytes_tokenizer() -> Vec<u8> {
    let meta = Meta {
        family: Family::ByteLevel,
        pattern: Pattern::Words { digits: Digits::One, marks: false },
        normalizer: Normalizer::Keep,
        flags: ModelFlags::default(),
        unknown: None,
        vocabulary: 256,
        classes: UnicodeVersion::default(),
        normalization: UnicodeVersion::default(),
        prefix: Vec::new(),
        suffix: Vec::new(),
    };
    let parts = Parts {
        meta,
        byte_tokens: Some(Box::new(std::array::from_fn(|byte| TokenId(byte as u32)))),
        vocabulary: (0..=255_u8).map(|byte| (vec![byte], TokenId(byte.into()))).collect(),
        merges: Vec::new(),
        classes: (0..0x11_0000).map(class).collect(),
        normalization: None,
        added_raw: Vec::new(),
        added_normalized: Vec::new(),
        template: None,
    };
    assemble(&parts, 1).unwrap()
}

fn staged(config: &str) -> Stage {
    let mut stage = Stage::empty();
    stage.config = route(config);
    push_tokenizer(&mut stage, 42, &bytes_tokenizer());
    stage
}

fn push_tokenizer(stage: &mut Stage, id: u64, image: &[u8]) {
    let parts: Vec<&[u8]> = image.chunks(10_000).collect();
    stage.pools[0].tokenizer = Some(TokenizerRef { id, parts: parts.len() as u32, bytes: image.len() as u32 });
    let puts: Vec<(String, Vec<u8>)> =
        (0..).zip(&parts).map(|(part, bytes)| (keys::tokenizer(id, part), bytes.to_vec())).collect();
    for put in puts {
        stage.push_of(true, &[put]);
    }
    stage.push();
    stage.envoy.pass(10);
}

fn text(words: usize, seed: usize) -> String {
    (0..words).map(|word| format!("word{} ", word * 31 + seed)).collect()
}

fn body(text: &str) -> Vec<u8> {
    format!("{{\"model\":\"base\",\"prompt\":\"{text}\"}}").into_bytes()
}

fn chain_of(text: &str) -> Vec<SequenceHash> {
    let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(byte.into())).collect();
    chain(&tokens, BlockSize::new(BLOCK).unwrap(), HashSeed::default())
}

#[test]
fn text_is_tokenized_and_finds_its_blocks() {
    let mut stage = staged(r#"{"role":"route"}"#);
    let text = text(100, 0);
    stage.index.store(Slot(3), Tier::Device, None, &chain_of(&text)[..7]);
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.request(0, &body(&text));
    let decision = stage.decision(0, &exchange);
    assert_eq!((&decision["rung"], &decision["overlap"]["device"]), (&"exact".into(), &7.into()));
    assert_eq!(decision["tokens"], text.len());
    assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.3:8000");
    assert_eq!(stage.envoy.count("tokenizer_loads"), 1);
    stage.request(0, &body(&text));
    assert_eq!(stage.envoy.count("tokenizer_loads"), 1);
}

/// A turn is one slice.
const SLICED: &str = r#"{"role":"route","slice_bytes":1024,"turn_us":0}"#;

#[test]
fn a_turn_takes_as_many_slices_as_it_has_time_for() {
    let mut stage = staged(r#"{"role":"route","slice_bytes":1024}"#);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    assert!(exchange.is_released(&stage.threads[0].host));
    assert!(stage.envoy.count("slices") > 3);
}

#[test]
fn a_long_prompt_is_done_in_slices_with_the_same_result() {
    let mut stage = staged(SLICED);
    let text = text(2000, 1);
    stage.index.store(Slot(2), Tier::Device, None, &chain_of(&text));
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.request(0, &body(&text));
    let mut slices = 0;
    while !exchange.is_released(&stage.threads[0].host) {
        assert!(stage.threads[0].slice(), "ticks must come fast");
        slices += 1;
    }
    assert!(slices > 3, "{slices}");
    assert!(!stage.threads[0].slice(), "nothing is left to do");
    assert_eq!(stage.envoy.count("slices"), slices);
    let decision = stage.decision(0, &exchange);
    assert_eq!(decision["overlap"]["device"], text.len() / 16);
    assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.2:8000");
    stage.finish(0, &exchange);
}

#[test]
fn other_requests_of_the_thread_go_on_between_slices_and_long_ones_take_turns() {
    let mut stage = staged(SLICED);
    let first = stage.request(0, &body(&text(2000, 1)));
    let second = stage.request(0, &body(&text(2000, 2)));
    let short = stage.prompt(0..64);
    assert!(short.is_released(&stage.threads[0].host));
    let mut order = Vec::new();
    while order.len() < 2 {
        assert!(stage.threads[0].slice());
        for (name, exchange) in [("first", &first), ("second", &second)] {
            if exchange.is_released(&stage.threads[0].host) && !order.contains(&name) {
                order.push(name);
            }
        }
    }
    assert_eq!(order, ["first", "second"]);
    let slices = stage.envoy.count("slices");
    assert!(slices > 6, "{slices}");
}

#[test]
fn prompts_that_wait_have_a_bound_in_common() {
    let long = text(2000, 1);
    let most = long.len() * 3 - 1;
    let mut stage = staged(&format!(r#"{{"role":"route","slice_bytes":1024,"turn_us":0,"max_waiting_bytes":{most}}}"#));
    // Two of them fit.
    let waiting = [0, 1].map(|_| stage.request(0, &body(&long)));
    let crowded = stage.request(0, &body(&long));
    assert!(crowded.is_released(&stage.threads[0].host));
    assert_eq!(stage.decision(0, &crowded)["rung"], "prefix_hash");
    assert_eq!(stage.envoy.count("inexact.crowded"), 1);
    assert!(waiting.iter().all(|exchange| !exchange.is_released(&stage.threads[0].host)));
    while stage.threads[0].slice() {}
    for exchange in waiting {
        assert_eq!(stage.decision(0, &exchange)["tokens"], long.len());
    }
    let later = stage.request(0, &body(&text(2000, 2)));
    assert!(!later.is_released(&stage.threads[0].host), "there is room again");
}

#[test]
fn ticks_are_fast_only_while_something_is_held() {
    let mut stage = staged(SLICED);
    let period = |stage: &Stage| stage.threads[0].host.tick_period.get();
    assert_eq!(period(&stage), TICK_MS);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    assert_eq!(period(&stage), SLICE_TICK_MS);
    while stage.threads[0].slice() {}
    assert!(exchange.is_released(&stage.threads[0].host));
    assert_eq!(period(&stage), TICK_MS);
}

#[test]
fn another_root_context_takes_over_when_the_fast_one_goes_away() {
    let mut stage = staged(SLICED);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    let thread = &mut stage.threads[0];
    // The ticks that were sped up belong to a root context that is gone; this one still has the slow period.
    thread.host.tick_period.set(TICK_MS);
    stage.envoy.pass(100);
    let thread = &mut stage.threads[0];
    thread.tick();
    assert_eq!(thread.host.tick_period.get(), SLICE_TICK_MS);
    while thread.slice() {}
    assert!(exchange.is_released(&stage.threads[0].host));
}

#[test]
fn a_client_that_leaves_between_slices_is_forgotten() {
    let mut stage = staged(SLICED);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    assert!(stage.threads[0].slice());
    let Thread { host, vm, .. } = &mut stage.threads[0];
    let seen = exchange.done(host, vm);
    assert!(!seen.is_released());
    assert!(stage.threads[0].vm.held.is_empty());
    while stage.threads[0].slice() {}
    stage.threads[0].tick();
    assert_eq!(stage.envoy.count("unrouted.ended_early"), 1);
    assert_eq!(stage.envoy.count("routed"), 0);
}

#[test]
fn a_request_that_envoy_answers_between_slices_is_not_resumed() {
    let mut stage = staged(SLICED);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 408, None);
    while stage.threads[0].slice() {}
    stage.threads[0].tick();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    assert!(!exchange.done(host, vm).is_released());
}

#[test]
fn trailers_between_slices_wait_with_the_rest() {
    let mut stage = staged(SLICED);
    let exchange = stage.open(0, "/v1/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &body(&text(2000, 1)), false);
    exchange.trailers(host, vm);
    assert!(!exchange.is_released(host));
    while stage.threads[0].slice() {}
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
}

#[test]
fn the_pool_as_it_is_at_the_end_decides() {
    let mut stage = staged(SLICED);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    stage.targets.truncate(1);
    stage.push();
    stage.envoy.pass(10);
    while stage.threads[0].slice() {}
    assert_eq!(stage.endpoints(0, &exchange), ["10.0.0.1:8000"]);
}

#[test]
fn a_tokenizer_that_goes_away_between_slices_leaves_the_prefix() {
    let mut stage = staged(SLICED);
    let exchange = stage.request(0, &body(&text(2000, 1)));
    stage.pools[0].tokenizer = None;
    stage.push();
    stage.envoy.pass(10);
    // Another request of the thread learns of it first.
    stage.prompt(0..64);
    while stage.threads[0].slice() {}
    assert_eq!(stage.decision(0, &exchange)["blocks"], 0);
    assert_eq!(stage.envoy.count("inexact.tokenizer_failed"), 1);
}

#[test]
fn a_tokenizer_that_cannot_be_loaded_is_tried_once_per_generation() {
    let mut stage = Stage::empty();
    let mut image = bytes_tokenizer();
    let last = image.len() - 1;
    image[0] ^= 0xff;
    push_tokenizer(&mut stage, 1, &image);
    for _ in 0..3 {
        let exchange = stage.request(0, &body("hello"));
        assert_eq!(stage.decision(0, &exchange)["rung"], "prefix_hash");
    }
    assert_eq!((stage.envoy.count("tokenizer_load_failures"), stage.envoy.count("inexact.tokenizer_failed")), (1, 3));

    // One part missing: the next generation may bring it.
    image[0] ^= 0xff;
    push_tokenizer(&mut stage, 2, &image[..last]);
    stage.pools[0].tokenizer = Some(TokenizerRef { id: 2, parts: 1000, bytes: image.len() as u32 });
    stage.push();
    stage.envoy.pass(10);
    for _ in 0..3 {
        stage.request(0, &body("hello"));
    }
    assert_eq!(stage.envoy.count("tokenizer_load_failures"), 2);
    push_tokenizer(&mut stage, 2, &image);
    let exchange = stage.request(0, &body(&text(20, 0)));
    assert_eq!(stage.decision(0, &exchange)["rung"], "exact");
    assert_eq!(stage.envoy.count("tokenizer_load_failures"), 2);
    let logs = stage.envoy.logs.borrow();
    assert!(logs.iter().any(|(_, line)| line.contains("part") && line.contains("missing")), "{logs:?}");
}

#[test]
fn what_the_template_refuses_goes_by_its_prefix() {
    let mut stage = staged(r#"{"role":"route"}"#);
    let exchange = stage.open(0, "/v1/chat/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, br#"{"model":"base","messages":[{"role":"user","content":"hi"}]}"#, true);
    assert_eq!(stage.decision(0, &exchange)["rung"], "prefix_hash");
    assert_eq!(stage.envoy.count("inexact.prompt"), 1);
}

#[test]
fn token_ids_need_no_tokenizer() {
    let mut stage = staged(r#"{"role":"route"}"#);
    stage.request(0, &completion("base", 0..64));
    assert_eq!(stage.envoy.count("tokenizer_loads"), 0);
}
