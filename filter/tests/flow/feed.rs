use kv_routing::block::{HEAD_TOKENS, HashSeed, marks};
use kv_routing::wire::keys;

use crate::stage::{Stage, Thread, chain_of, completion, target, tokens};

#[test]
fn decisions_reach_the_bridge_with_its_next_push() {
    let mut stage = Stage::new();
    stage.holds(2, 0..32);
    let exchange = stage.prompt(0..300);
    stage.threads[0].tick();
    assert!(stage.heartbeat().decisions.is_empty(), "nobody has computed the prompt yet");
    let first = stage.endpoints(0, &exchange)[0].clone();
    stage.finish(0, &exchange);
    assert!(stage.heartbeat().decisions.is_empty(), "a batch goes out with the tick");
    stage.threads[0].tick();
    let reply = stage.heartbeat();
    let [decision] = &reply.decisions[..] else { panic!("{:?}", reply.decisions) };
    let chain = chain_of(0..300);
    assert_eq!((decision.prompt_tokens, decision.blocks, decision.predicted_blocks), (300, 18, 2));
    assert_eq!((decision.certain_blocks, &decision.marks), (18, &marks(&chain)));
    assert_eq!((&decision.head, decision.seed), (&tokens(0..HEAD_TOKENS as u32), HashSeed::default().value()));
    assert!(decision.answered && !decision.adapter);
    assert_eq!(first, "10.0.0.2:8000");
    assert_eq!(decision.target, stage.targets[1].id);
    assert_eq!(reply.load_rows.len(), 1);
    assert!(stage.heartbeat().decisions.is_empty());
}

#[test]
fn many_decisions_do_not_wait_for_the_tick() {
    let mut stage = Stage::new();
    for _ in 0..64 {
        let exchange = stage.prompt(0..64);
        stage.finish(0, &exchange);
    }
    assert_eq!(stage.heartbeat().decisions.len(), 64);
    assert_eq!(stage.envoy.count("decisions_dropped"), 0);
}

#[test]
fn nothing_piles_up_while_the_bridge_is_gone() {
    let mut stage = Stage::new();
    stage.envoy.pass(1000);
    stage.heartbeat();
    stage.prompt(0..64);
    stage.envoy.pass(4000);
    for _ in 0..200 {
        let exchange = stage.prompt(0..64);
        stage.finish(0, &exchange);
    }
    stage.threads[0].tick();
    assert_eq!(stage.envoy.queued(keys::DECISIONS), 0);
    assert_eq!(stage.envoy.count("decisions_dropped"), 200, "the first one has not been answered yet");
}

#[test]
fn an_envoy_without_an_ingest_role_drops_them() {
    let mut stage = Stage::empty();
    // Written by hand: no push was ever taken, so no queue exists.
    stage.generation += 1;
    let manifest = stage.manifest();
    let table = kv_routing::wire::TargetTable { targets: stage.targets.clone() }.encode().unwrap();
    for (key, value) in [(keys::targets(stage.pools[0].id), table), (keys::MANIFEST.to_owned(), manifest)] {
        filter::host::Host::set_shared(&stage.threads[0].host, &key, &value, None).unwrap();
    }
    let exchange = stage.request(0, &completion("base", 0..64));
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
    stage.finish(0, &exchange);
    stage.threads[0].tick();
    assert_eq!(stage.envoy.count("decisions_dropped"), 1);
}

#[test]
fn a_message_that_is_no_batch_is_skipped() {
    let mut stage = Stage::new();
    let queue = filter::host::Host::queue(&stage.threads[0].host, keys::DECISIONS).unwrap();
    filter::host::Host::enqueue(&stage.threads[0].host, queue, b"junk").unwrap();
    let exchange = stage.prompt(0..64);
    stage.finish(0, &exchange);
    stage.threads[0].tick();
    assert_eq!(stage.heartbeat().decisions.len(), 1);
}

/// What the target made of a prompt is known only of a target that answered.
#[test]
fn errors_and_aborts_are_told_and_a_retry_names_who_served() {
    let mut stage = Stage::new();
    let mut ended = |status: Option<u32>, upstream: Option<&str>| {
        let exchange = stage.request(0, &completion("lora", 0..100));
        let Thread { host, vm, .. } = &mut stage.threads[0];
        if let Some(status) = status {
            exchange.response(host, vm, status, upstream);
            exchange.response_body(host, vm, b"{}", true);
        }
        exchange.done(host, vm);
        stage.threads[0].tick();
        let [decision] = &stage.heartbeat().decisions[..] else { panic!("one decision per request") };
        (decision.answered, decision.adapter, decision.target)
    };
    assert!(!ended(Some(503), None).0);
    assert!(!ended(None, None).0);
    let third = target(3);
    assert_eq!(ended(Some(200), Some(&third.endpoint)), (true, true, third.id));
    assert!(!ended(Some(200), Some("10.9.9.9:1")).0, "a host that is no target of the pool");
}
