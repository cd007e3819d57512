//! Prompts count as held by the target they were routed to before anything is stored.

use kv_routing::wire::{SourceState, UnixMillis};

use crate::stage::{Stage, Thread, chain_of, completion};

const PREDICT_MS: u64 = 5_000;
const WITHOUT_EVENTS_MS: u64 = 60_000;

fn stage(source: SourceState) -> Stage {
    let mut stage = Stage::empty();
    (stage.pools[0].predict_ms, stage.pools[0].predict_without_events_ms) =
        (PREDICT_MS as u32, WITHOUT_EVENTS_MS as u32);
    stage.targets.iter_mut().for_each(|target| target.source = source);
    stage.push();
    stage
}

/// Where the next request for these tokens goes, and by which rung and overlap.
fn routed(stage: &mut Stage, at: usize, ids: std::ops::Range<u32>) -> (String, String, u64) {
    let exchange = stage.request(at, &completion("base", ids));
    let (target, decision) = (stage.endpoints(at, &exchange)[0].clone(), stage.decision(at, &exchange));
    (target, decision["rung"].as_str().unwrap().to_owned(), decision["overlap"]["device"].as_u64().unwrap())
}

#[test]
fn a_burst_of_siblings_goes_to_one_target() {
    let mut stage = stage(SourceState::Exact);
    let (first, rung, overlap) = routed(&mut stage, 0, 0..800);
    assert_eq!((rung.as_str(), overlap), ("exact", 0));
    for sibling in 1..8 {
        stage.envoy.pass(3);
        let found = routed(&mut stage, 0, 0..800 + sibling);
        assert_eq!(found, (first.clone(), "predicted".into(), 50), "sibling {sibling}");
    }
    let (_, rung, overlap) = routed(&mut stage, 0, 5_000..5_800);
    assert_eq!((rung.as_str(), overlap), ("exact", 0), "a stranger finds nothing");
}

#[test]
fn another_thread_knows_of_the_first_sibling() {
    let mut stage = stage(SourceState::Exact);
    let (first, ..) = routed(&mut stage, 0, 0..800);
    stage.envoy.pass(3);
    assert_eq!(routed(&mut stage, 1, 0..801), (first, "predicted".into(), 50));
}

#[test]
fn events_and_time_end_a_prediction() {
    let mut stage = stage(SourceState::Exact);
    let exchange = stage.prompt(0..800);
    let first = stage.endpoints(0, &exchange)[0].clone();
    stage.finish(0, &exchange);
    let slot = stage.targets.iter().find(|target| target.endpoint == first).unwrap().slot.0;
    stage.holds(slot, 0..800);
    stage.envoy.pass(10);
    assert_eq!(routed(&mut stage, 0, 0..800), (first, "exact".into(), 50));

    // Its first byte is there, so events would have told if it had kept anything.
    let exchange = stage.prompt(10_000..10_800);
    stage.finish(0, &exchange);
    stage.envoy.pass(900);
    assert_eq!(routed(&mut stage, 0, 10_000..10_800).1, "predicted");
    let exchange = stage.prompt(20_000..20_800);
    stage.finish(0, &exchange);
    stage.envoy.pass(1_100);
    stage.heartbeat();
    assert_eq!(routed(&mut stage, 0, 20_000..20_800).2, 0);
}

#[test]
fn before_its_first_byte_or_where_events_are_missing_only_time_ends_a_prediction() {
    let mut stage = stage(SourceState::Warm);
    let exchange = stage.prompt(0..800);
    stage.finish(0, &exchange);
    stage.prompt(10_000..10_800);
    for (after, expected) in [(PREDICT_MS - 100, 50), (PREDICT_MS, 0)] {
        stage.envoy.pass(after);
        stage.heartbeat();
        // What is asked for counts as held anew, so each is asked of another prompt's beginning.
        let found = |stage: &Stage, from: u32| {
            let vm = &stage.threads[0].vm;
            let pool = vm.view.pools()[0].clone();
            let overlaps = vm.predicted(&pool, &chain_of(from..from + 800), UnixMillis(stage.envoy.millis()));
            overlaps.0.first().map_or(0, |(_, overlap)| overlap.total())
        };
        assert_eq!([found(&stage, 0), found(&stage, 10_000)], [expected; 2]);
    }
}

#[test]
fn a_failed_dispatch_is_never_counted() {
    for status in [None, Some(429), Some(503)] {
        let mut stage = stage(SourceState::Exact);
        let exchange = stage.prompt(0..800);
        stage.envoy.pass(10);
        let found = |stage: &Stage| {
            let overlaps = stage.threads.iter().map(|Thread { vm, .. }| {
                let pool = vm.view.pools()[0].clone();
                vm.predicted(&pool, &chain_of(0..800), UnixMillis(stage.envoy.millis())).0.len()
            });
            overlaps.collect::<Vec<_>>()
        };
        stage.request(1, &completion("base", 9_000..9_100));
        assert_eq!(found(&stage), [1, 1], "the other thread knows of it");
        let Thread { host, vm, .. } = &mut stage.threads[0];
        if let Some(status) = status {
            exchange.response(host, vm, status, None);
        }
        exchange.done(host, vm);
        stage.envoy.pass(10);
        stage.request(1, &completion("base", 9_000..9_100));
        assert_eq!(found(&stage), [0, 0], "{status:?}");
    }
}

#[test]
fn a_retry_moves_the_prediction_to_who_served() {
    let mut stage = stage(SourceState::Exact);
    let exchange = stage.prompt(0..800);
    let other = stage.endpoints(0, &exchange)[1].clone();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some(&other));
    exchange.response_body(host, vm, b"{}", true);
    exchange.done(host, vm);
    stage.envoy.pass(10);
    assert_eq!(routed(&mut stage, 0, 0..800), (other, "predicted".into(), 50));
}

#[test]
fn without_events_answers_are_all_that_is_known_and_last_longer() {
    let mut stage = stage(SourceState::None);
    let exchange = stage.prompt(0..800);
    let first = stage.endpoints(0, &exchange)[0].clone();
    assert_eq!(stage.decision(0, &exchange)["rung"], "prefix_hash");
    stage.finish(0, &exchange);
    for _ in 0..3 {
        stage.envoy.pass(WITHOUT_EVENTS_MS / 2);
        stage.heartbeat();
        let exchange = stage.prompt(0..1_600);
        assert_eq!(stage.endpoints(0, &exchange)[0], first);
        assert_eq!(stage.decision(0, &exchange)["rung"], "predicted");
        stage.finish(0, &exchange);
    }
    stage.envoy.pass(WITHOUT_EVENTS_MS);
    stage.heartbeat();
    let exchange = stage.prompt(0..1_600);
    assert_eq!(stage.decision(0, &exchange)["rung"], "prefix_hash");
}

#[test]
fn a_target_whose_parity_failed_gets_no_credit_for_what_it_was_sent() {
    let mut stage = stage(SourceState::Mismatch);
    let exchange = stage.prompt(0..800);
    stage.finish(0, &exchange);
    stage.envoy.pass(10);
    assert_eq!(routed(&mut stage, 0, 0..800).2, 0);
}
