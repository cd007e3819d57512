//! Streams that end when nobody expects it. The fake panics on every call that would be too late.

use filter::host::fake::ROOT;

use crate::stage::{Stage, Thread, completion};

fn nothing_left(stage: &Stage) {
    assert_eq!(stage.threads[0].vm.ledger.requests(), 0);
    assert!(stage.threads[0].vm.held.is_empty());
}

#[test]
fn a_client_that_leaves_in_any_phase_leaves_nothing_behind() {
    for phase in 0..6 {
        let mut stage = Stage::new();
        let exchange = stage.open(0, "/v1/completions", &[]);
        let body = completion("base", 0..64);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        if phase > 0 {
            exchange.body(host, vm, &body[..10], false);
        }
        if phase > 1 {
            exchange.body(host, vm, &body[10..], true);
        }
        if phase > 2 {
            exchange.response(host, vm, 200, Some("10.0.0.1:8000"));
        }
        if phase > 3 {
            exchange.response_body(host, vm, b"data: x\n\n", false);
        }
        if phase > 4 {
            exchange.response_trailers(host, vm);
        }
        exchange.done(host, vm);
        nothing_left(&stage);
        let early = u64::from(phase < 2);
        assert_eq!(stage.envoy.count("unrouted.ended_early"), early, "phase {phase}");
        stage.threads[0].tick();
    }
}

#[test]
fn a_413_while_the_body_is_collected_ends_the_request() {
    let mut stage = Stage::new();
    let exchange = stage.open(0, "/v1/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, b"{\"model\":", false);
    exchange.response(host, vm, 413, None);
    exchange.response_body(host, vm, b"Payload Too Large", true);
    let seen = exchange.done(host, vm);
    assert!(!seen.is_released());
    assert_eq!(stage.envoy.count("unrouted.ended_early"), 1);
    nothing_left(&stage);
}

#[test]
fn a_response_before_the_request_is_whole_is_harmless() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 503, None);
    exchange.done(host, vm);
    nothing_left(&stage);
}

#[test]
fn an_internal_redirect_is_a_new_request() {
    let mut stage = Stage::new();
    let first = stage.prompt(0..64);
    let second = stage.prompt(0..64);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    first.done(host, vm);
    assert_eq!(stage.threads[0].vm.ledger.requests(), 1);
    stage.finish(0, &second);
    nothing_left(&stage);
}

#[test]
fn a_stream_that_was_never_opened_ends_quietly() {
    let mut stage = Stage::new();
    let config = stage.config.clone();
    let stream = filter::flow::Stream::new(77, ROOT, config);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    stream.on_done(vm, host);
    nothing_left(&stage);
}
