use kv_routing::wire::keys;

use crate::stage::{Stage, chain_of, completion};

#[test]
fn decisions_reach_the_bridge_with_its_next_push() {
    let mut stage = Stage::new();
    stage.holds(2, 0..32);
    let exchange = stage.prompt(0..100);
    assert!(stage.heartbeat().decisions.is_empty(), "a batch goes out with the tick");
    stage.threads[0].tick();
    let reply = stage.heartbeat();
    let [decision] = &reply.decisions[..] else { panic!("{:?}", reply.decisions) };
    let chain = chain_of(0..100);
    assert_eq!((decision.prompt_tokens, decision.blocks, decision.predicted_blocks), (100, 6, 2));
    assert_eq!((decision.first, decision.last), (chain.first().copied(), chain.last().copied()));
    assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.2:8000");
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
    assert_eq!(stage.envoy.count("decisions_dropped"), 201);
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
    stage.threads[0].tick();
    assert_eq!(stage.envoy.count("decisions_dropped"), 1);
}

#[test]
fn a_message_that_is_no_batch_is_skipped() {
    let mut stage = Stage::new();
    let queue = filter::host::Host::queue(&stage.threads[0].host, keys::DECISIONS).unwrap();
    filter::host::Host::enqueue(&stage.threads[0].host, queue, b"junk").unwrap();
    stage.prompt(0..64);
    stage.threads[0].tick();
    assert_eq!(stage.heartbeat().decisions.len(), 1);
}
