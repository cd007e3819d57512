//! Clients that leave while their prompt is prefilled elsewhere: what the prefill engine holds for them is freed.

use filter::flow::on_root;
use filter::host::fake::{Exchange, FakeAnswer, FakeCall, ROOT};
use kv_routing::handoff::Protocol;
use kv_routing::wire::Booking;
use serde_json::{Value, json};

use crate::prefill::{DECODE, PREFILL, booked, nixl_answer, nothing_left, rule, stage};
use crate::stage::{Stage, Thread, call, completion};

/// Prefill answers with what decode engines need.
fn answers() -> [(Protocol, FakeAnswer); 3] {
    let params = br#"{"prompt_token_ids":[5],"choices":[{"finish_reason":"length","disaggregated_params":{"ctx_request_id":7}}]}"#;
    [
        (Protocol::Nixl, nixl_answer()),
        (Protocol::Mooncake, FakeAnswer::of(200, br#"{"choices":[{"finish_reason":"length"}]}"#)),
        (Protocol::TensorRtLlm, FakeAnswer::of(200, params)),
    ]
}

/// A request whose client is gone, and the number of its prefill call.
fn left(stage: &mut Stage) -> u32 {
    let exchange = stage.open(0, "/v1/completions", &[("x-request-id", b"r-1")]);
    let body =
        [&br#"{"stream":true,"stream_options":{},"max_tokens":50,"#[..], &completion("base", 0..320)[1..]].concat();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &body, true);
    let sent = call(stage, &exchange);
    assert_eq!(sent.caller, ROOT, "the root context outlives the client");
    done(stage, &exchange);
    sent.number
}

fn done(stage: &mut Stage, exchange: &Exchange) {
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.done(host, vm);
}

fn answered(stage: &mut Stage, number: u32, answer: FakeAnswer) {
    let Thread { host, vm, .. } = &mut stage.threads[0];
    host.answer(vm, number, answer);
}

fn under_way(stage: &Stage) -> Vec<FakeCall> {
    stage.threads[0].host.sent.borrow().clone()
}

fn sum(stage: &Stage, endpoints: [&str; 2]) -> (u64, u64) {
    let of = endpoints.map(|endpoint| booked(stage, endpoint));
    (of.iter().map(|booking| u64::from(booking.requests)).sum(), of.iter().map(|booking| booking.prefill_tokens).sum())
}

#[test]
fn the_decode_engine_takes_the_blocks_over_for_one_token() {
    for (protocol, good) in answers() {
        let mut stage = stage(protocol);
        let number = left(&mut stage);
        assert_eq!(sum(&stage, PREFILL), (1, 320), "the engine is still at it");
        answered(&mut stage, number, good);
        assert_eq!((sum(&stage, PREFILL), sum(&stage, DECODE)), ((0, 0), (1, 0)));
        let [sent] = <[FakeCall; 1]>::try_from(under_way(&stage)).unwrap();
        assert_eq!((&*sent.cluster, sent.caller, sent.timeout_ms), ("workers", ROOT, 60_000));
        assert_eq!((sent.header("x-request-id"), sent.header(":path")), (Some("r-1"), Some("/v1/completions")));
        let target = sent.header("x-gateway-destination-endpoint").unwrap();
        assert_eq!(booked(&stage, target).requests, 1);
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        assert_eq!(
            (&body["max_tokens"], &body["stream"], body.get("stream_options")),
            (&json!(1), &json!(false), None)
        );
        let transfer = if protocol == Protocol::TensorRtLlm { "disaggregated_params" } else { "kv_transfer_params" };
        assert!(body[transfer].is_object(), "{body}");
        answered(&mut stage, sent.number, FakeAnswer::of(200, b"{}"));
        nothing_left(&stage);
        assert!(under_way(&stage).is_empty());
        let count = |name: &str| stage.envoy.count(name);
        assert_eq!((count("handoff.freed"), count("handoff.free_failed"), count("unrouted.ended_early")), (1, 0, 1));
        // The prompt was computed, whoever wanted it.
        stage.threads[0].tick();
        assert_eq!(stage.heartbeat().decisions.iter().map(|told| told.answered).collect::<Vec<_>>(), [true]);
    }
}

/// A request whose decode call was let go.
fn handed_over(stage: &mut Stage, answer: FakeAnswer) -> Exchange {
    let body = [&br#"{"stream":true,"max_tokens":0,"#[..], &completion("base", 0..320)[1..]].concat();
    let exchange = stage.request(0, &body);
    let number = call(stage, &exchange).number;
    answered(stage, number, answer);
    assert!(exchange.is_released(&stage.threads[0].host));
    exchange
}

#[test]
fn what_no_decode_call_came_for_is_freed() {
    for (protocol, good) in answers() {
        let mut stage = stage(protocol);
        let exchange = handed_over(&mut stage, good);
        assert!(stage.threads[0].vm.prefills.kept() > 0);
        // Envoy is still connecting.
        done(&mut stage, &exchange);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        host.call_roots(vm);
        let [sent] = <[FakeCall; 1]>::try_from(under_way(&stage)).unwrap();
        assert_eq!((&*sent.cluster, sent.caller), ("workers", ROOT));
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(1), &json!(false)));
        assert_eq!(sum(&stage, DECODE), (1, 0));
        answered(&mut stage, sent.number, FakeAnswer::of(200, b"{}"));
        nothing_left(&stage);
        assert_eq!(stage.envoy.count("handoff.freed"), 1);
    }
}

/// The prefill engine has seen less of the body than the decode engine does.
#[test]
fn what_the_decode_engine_refuses_is_freed() {
    for (status, frees) in [(400, 1), (422, 1), (200, 0), (500, 0), (502, 0)] {
        let mut stage = stage(Protocol::Nixl);
        let exchange = handed_over(&mut stage, nixl_answer());
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, status, Some(DECODE[0]));
        exchange.response_body(host, vm, b"{}", true);
        done(&mut stage, &exchange);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        host.call_roots(vm);
        let calls = under_way(&stage);
        assert_eq!(calls.len(), frees, "{status}");
        for call in calls {
            answered(&mut stage, call.number, FakeAnswer::of(200, b"{}"));
        }
        nothing_left(&stage);
    }
}

#[test]
fn only_so_many_decode_bodies_are_kept() {
    let mut stage = stage(Protocol::Nixl);
    let filling = " ".repeat(900_000);
    let mut open = Vec::new();
    for _ in 0..20 {
        let body = [format!("{{{filling}").as_bytes(), &completion("base", 0..320)[1..]].concat();
        let exchange = stage.request(0, &body);
        let number = call(&stage, &exchange).number;
        answered(&mut stage, number, nixl_answer());
        open.push(exchange);
    }
    let kept = stage.threads[0].vm.prefills.kept();
    assert!((15 << 20..=16 << 20).contains(&kept), "{kept}");
    for exchange in &open {
        stage.finish(0, exchange);
    }
    nothing_left(&stage);
}

#[test]
fn blocks_that_cannot_be_freed_are_counted() {
    for failed in [FakeAnswer::of(500, b""), FakeAnswer::of(400, b"{}"), FakeAnswer::reset()] {
        let mut stage = stage(Protocol::Nixl);
        let number = left(&mut stage);
        answered(&mut stage, number, nixl_answer());
        let release = under_way(&stage)[0].number;
        answered(&mut stage, release, failed);
        nothing_left(&stage);
        assert_eq!((stage.envoy.count("handoff.freed"), stage.envoy.count("handoff.free_failed")), (0, 1));
    }
    let mut stage = stage(Protocol::Nixl);
    let number = left(&mut stage);
    stage.envoy.clusters.borrow_mut().remove("workers");
    answered(&mut stage, number, nixl_answer());
    nothing_left(&stage);
    assert_eq!(stage.envoy.count("handoff.free_failed"), 1);
}

#[test]
fn a_prefill_that_holds_nothing_needs_nothing() {
    let cases = [
        (FakeAnswer::of(503, b""), 0),
        (FakeAnswer::of(400, b"{}"), 0),
        (FakeAnswer::reset(), 0),
        (FakeAnswer::of(200, br#"{"choices":[{"finish_reason":"stop"}],"kv_transfer_params":{}}"#), 0),
        (FakeAnswer::of(200, br#"{"choices":[{"finish_reason":"length"}]}"#), 1),
        (FakeAnswer::of(200, b"no json"), 1),
    ];
    for (answer, misconfigured) in cases {
        let mut stage = stage(Protocol::Nixl);
        let number = left(&mut stage);
        answered(&mut stage, number, answer);
        assert!(under_way(&stage).is_empty(), "nobody is there to try again for");
        nothing_left(&stage);
        assert_eq!(stage.envoy.count("handoff.misconfigured"), misconfigured);
        assert_eq!((stage.envoy.count("handoff.freed"), stage.envoy.count("handoff.free_failed")), (0, 0));
    }
}

#[test]
fn a_client_that_leaves_before_the_call_is_made_spares_it() {
    let mut stage = stage(Protocol::Nixl);
    stage.threads[0].host.late_roots.set(true);
    let exchange = stage.prompt(0..320);
    let other = stage.prompt(1000..1320);
    assert!(under_way(&stage).is_empty() && sum(&stage, PREFILL).0 == 2);
    done(&mut stage, &exchange);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    host.late_roots.set(false);
    host.call_roots(vm);
    assert_eq!(under_way(&stage).iter().map(|call| call.context).collect::<Vec<_>>(), [other.context()]);
    assert_eq!(stage.envoy.queued(&stage.threads[0].vm.queue), 0);
}

#[test]
fn only_its_own_root_context_makes_the_call_of_a_request() {
    let mut stage = stage(Protocol::Nixl);
    stage.threads[0].host.late_roots.set(true);
    let exchange = stage.prompt(0..320);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    let queue = filter::host::Host::queue(host, &vm.queue).unwrap();
    on_root(vm, host, ROOT + 1, queue);
    assert!(exchange.calls(host).is_empty());
    on_root(vm, host, ROOT, queue);
    assert_eq!(exchange.calls(host).len(), 1);
}

#[test]
fn a_tick_does_what_the_queue_does_not() {
    let mut stage = stage(Protocol::Nixl);
    stage.threads[0].host.late_roots.set(true);
    let exchange = stage.prompt(0..320);
    stage.threads[0].tick();
    assert_eq!(call(&stage, &exchange).caller, ROOT);
}

#[test]
fn two_calls_at_once_hold_nothing_for_nobody() {
    let mut stage = stage(Protocol::Sglang);
    let exchange = stage.prompt(0..320);
    assert_eq!(call(&stage, &exchange).caller, exchange.context(), "at once, without a detour");
    done(&mut stage, &exchange);
    nothing_left(&stage);
}

#[test]
fn calls_of_clients_that_left_count_as_under_way() {
    let mut stage = stage(Protocol::Nixl);
    rule(&mut stage, |rules| rules.max_waits = 1);
    let number = left(&mut stage);
    for _call in ["prefill", "release"] {
        let next = stage.prompt(1000..1320);
        assert!(next.calls(&stage.threads[0].host).is_empty());
        assert_eq!(stage.decision(0, &next)["whole"], "limit");
        stage.finish(0, &next);
        if under_way(&stage)[0].number == number {
            answered(&mut stage, number, nixl_answer());
        }
    }
    let release = under_way(&stage)[0].number;
    answered(&mut stage, release, FakeAnswer::of(200, b"{}"));
    let next = stage.prompt(1000..1320);
    assert_eq!(next.calls(&stage.threads[0].host).len(), 1);
}

#[test]
fn a_call_that_envoy_forgets_is_given_up() {
    for phase in 0..2 {
        let mut stage = stage(Protocol::Nixl);
        let number = left(&mut stage);
        if phase > 0 {
            answered(&mut stage, number, nixl_answer());
        }
        stage.threads[0].host.sent.borrow_mut().clear();
        stage.envoy.pass(65_000);
        stage.threads[0].tick();
        assert_eq!(stage.threads[0].vm.prefills.calls(), 1, "its answer may yet come");
        stage.envoy.pass(6_000);
        stage.threads[0].tick();
        nothing_left(&stage);
        assert_eq!(stage.envoy.count("handoff.free_failed"), 1);
    }
}

#[test]
fn a_timeout_of_envoys_own_ends_a_request_that_waits() {
    let mut stage = stage(Protocol::Nixl);
    let exchange = stage.prompt(0..320);
    let number = call(&stage, &exchange).number;
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 408, None);
    exchange.answer(host, vm, number, nixl_answer());
    let release = host.sent.borrow()[0].number;
    done(&mut stage, &exchange);
    assert_eq!(booked(&stage, PREFILL[0]), Booking::default());
    answered(&mut stage, release, FakeAnswer::of(200, b"{}"));
    nothing_left(&stage);
}
