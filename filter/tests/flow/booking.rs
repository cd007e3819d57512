use kv_routing::target::TargetId;
use kv_routing::wire::Booking;

use crate::stage::{Stage, Thread, completion};

fn booked(stage: &Stage, at: usize) -> Booking {
    let sum = |sum: Booking, entry: &kv_routing::wire::LoadRowEntry| Booking {
        requests: sum.requests + entry.booking.requests,
        prefill_tokens: sum.prefill_tokens + entry.booking.prefill_tokens,
        decode_blocks: sum.decode_blocks + entry.booking.decode_blocks,
        failures: sum.failures + entry.booking.failures,
        peak_requests: 0,
    };
    stage.threads[at].vm.ledger.entries().iter().fold(Booking::default(), sum)
}

fn nothing() -> Booking {
    Booking::default()
}

#[test]
fn prefill_ends_at_the_first_byte_and_the_rest_at_the_end() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let exchange = stage.prompt(0..330);
    let whole = Booking { requests: 1, prefill_tokens: 170, decode_blocks: 21, failures: 0, peak_requests: 0 };
    assert_eq!(booked(&stage, 0), whole);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some("10.0.0.2:8000"));
    exchange.response_body(host, vm, b"", false);
    assert_eq!(booked(&stage, 0), whole, "headers and an empty piece are not a first byte");
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response_body(host, vm, b"data: x\n\n", false);
    assert_eq!(booked(&stage, 0), Booking { prefill_tokens: 0, ..whole });
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response_body(host, vm, b"data: y\n\n", false);
    exchange.response_body(host, vm, b"", true);
    assert_eq!(booked(&stage, 0), Booking { prefill_tokens: 0, ..whole });
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.done(host, vm);
    assert_eq!(booked(&stage, 0), nothing());
}

#[test]
fn a_second_request_avoids_the_busy_target() {
    let mut stage = Stage::new();
    let first = stage.prompt(0..64);
    let second = stage.prompt(1000..1064);
    let third = stage.prompt(2000..2064);
    let mut chosen: Vec<String> =
        [&first, &second, &third].iter().map(|exchange| stage.endpoints(0, exchange)[0].clone()).collect();
    chosen.sort();
    chosen.dedup();
    assert_eq!(chosen.len(), 3);
}

#[test]
fn a_retry_moves_the_booking_to_the_host_that_serves() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    let endpoints = stage.endpoints(0, &exchange);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some(&endpoints[1]));
    let id = |endpoint: &str| TargetId::of(endpoint, None);
    assert_eq!(vm.ledger.booking(id(&endpoints[0])), Booking { failures: 1, ..nothing() });
    assert_eq!(vm.ledger.booking(id(&endpoints[1])).requests, 1);
    assert_eq!(stage.envoy.count("moved"), 1);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.done(host, vm);
    assert_eq!(vm.ledger.booking(id(&endpoints[1])), nothing());
}

#[test]
fn a_host_that_is_no_target_keeps_the_booking_where_it_was_until_the_end() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some("192.168.0.1:1"));
    assert_eq!(stage.envoy.count("moved"), 1);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.done(host, vm);
    assert_eq!(booked(&stage, 0), Booking { failures: 1, ..nothing() });
}

#[test]
fn ranks_of_one_endpoint_are_told_apart_when_a_booking_moves() {
    let mut stage = Stage::empty();
    for (position, (endpoint, rank)) in [("a:1", 0), ("a:1", 1), ("b:1", 0), ("b:1", 1)].into_iter().enumerate() {
        let mut entry = crate::stage::target(u16::try_from(position).unwrap());
        (entry.endpoint, entry.rank) = (endpoint.to_owned(), Some(rank));
        entry.id = TargetId::of(endpoint, Some(rank));
        stage.targets.push(entry);
    }
    stage.targets.drain(..3);
    stage.push();
    stage.holds(1, 0..64);
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.endpoints(0, &exchange), ["a:1", "b:1"]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some("b:1"));
    assert_eq!(vm.ledger.booking(TargetId::of("b:1", Some(1))).requests, 1);
}

#[test]
fn an_error_ends_the_prefill_at_once_and_counts_as_a_failure_of_the_target() {
    let mut stage = Stage::new();
    for (status, failures) in [(400, 0), (500, 1), (503, 1)] {
        let before = booked(&stage, 0).failures;
        let exchange = stage.prompt(0..64);
        let to = stage.endpoints(0, &exchange)[0].clone();
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, status, Some(&to));
        assert_eq!(booked(&stage, 0).prefill_tokens, 0);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.done(host, vm);
        assert_eq!(booked(&stage, 0), Booking { failures: before + failures, ..nothing() }, "{status}");
    }
    assert_eq!(stage.envoy.count("failed"), 2);
}

#[test]
fn several_prompts_in_a_body_all_have_to_be_prefilled() {
    let mut stage = Stage::new();
    let ids = (0..32).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let body = format!("{{\"model\":\"base\",\"prompt\":[[{ids}],[{ids}],[1]]}}");
    stage.request(0, body.as_bytes());
    assert_eq!(booked(&stage, 0).prefill_tokens, 96);
}

#[test]
fn threads_see_one_anothers_load() {
    let mut stage = Stage::new();
    let mut seen = std::collections::HashSet::new();
    for thread in [0, 1, 0] {
        let exchange = stage.request(thread, &completion("base", 0..64));
        seen.insert(stage.endpoints(thread, &exchange)[0].clone());
        stage.envoy.pass(200);
    }
    assert_eq!(seen.len(), 3);
}

/// The engine's report still contains a request of another thread that is already over. Taking it for load from outside sent
/// repeated prompts away from the target that holds them.
#[test]
fn a_late_report_of_another_threads_request_is_not_outside_load() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let first = stage.request(0, &completion("base", 0..160));
    assert_eq!(stage.endpoints(0, &first)[0], "10.0.0.2:8000");
    stage.finish(0, &first);
    (stage.targets[1].running, stage.targets[1].kv_usage, stage.targets[1].capacity_blocks) = (1, 0.5, 1000);
    stage.push();
    stage.envoy.pass(10);
    let again = stage.request(1, &completion("base", 0..160));
    assert_eq!(stage.endpoints(1, &again)[0], "10.0.0.2:8000", "{}", stage.decision(1, &again));

    // Load that stays beyond what this Envoy lately had is from outside, and is avoided.
    stage.finish(1, &again);
    for _ in 0..3 {
        stage.envoy.pass(2000);
        stage.push();
        stage.threads.iter_mut().for_each(crate::stage::Thread::tick);
    }
    let avoided = stage.request(1, &completion("base", 0..160));
    assert_ne!(stage.endpoints(1, &avoided)[0], "10.0.0.2:8000");
}
