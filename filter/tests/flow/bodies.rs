use crate::stage::{Stage, Thread, completion, route};

#[test]
fn the_body_is_collected_to_its_end_and_read_once() {
    let mut stage = Stage::new();
    let body = completion("base", 0..64);
    let exchange = stage.open(0, "/v1/completions", &[]);
    stage.threads[0].host.forget_calls();
    for piece in body.chunks(50) {
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.body(host, vm, piece, false);
        assert!(!exchange.is_released(host));
    }
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, b"", true);
    assert_eq!(host.calls()["request_body"], 1);
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
}

#[test]
fn trailers_end_a_body_too() {
    let mut stage = Stage::new();
    let exchange = stage.open(0, "/v1/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &completion("base", 0..64), false);
    exchange.trailers(host, vm);
    assert!(exchange.is_released(host));
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
}

#[test]
fn trailers_after_the_decision_change_nothing() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.trailers(host, vm);
    assert_eq!(stage.envoy.count("routed"), 1);
}

#[test]
fn an_empty_body_passes() {
    let mut stage = Stage::new();
    let exchange = stage.request(0, b"");
    assert_eq!(stage.unrouted(0, &exchange), "no_body");
}

#[test]
fn what_is_no_json_is_left_to_the_engine() {
    for body in [&b"hello"[..], b"{", b"[1]", b"\xff\xfe", b"\x1f\x8b\x08\x00", b"{\"model\":1}", b"null"] {
        let mut stage = Stage::new();
        let exchange = stage.request(0, body);
        assert_eq!(stage.unrouted(0, &exchange), "bad_body", "{body:?}");
        assert_eq!(stage.envoy.count("unrouted.bad_body"), 1);
    }
}

#[test]
fn a_body_over_the_bound_is_let_go_as_soon_as_it_is() {
    let mut stage = Stage::new();
    stage.config = route(r#"{"role":"route","max_body_bytes":100}"#);
    let exchange = stage.open(0, "/v1/completions", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &[b' '; 60], false);
    assert!(!exchange.is_released(host));
    exchange.body(host, vm, &[b' '; 60], false);
    assert!(exchange.is_released(host));
    // The rest streams through.
    exchange.body(host, vm, &[b' '; 60], false);
    exchange.body(host, vm, b"", true);
    assert_eq!(stage.unrouted(0, &exchange), "body_too_large");
    assert_eq!(stage.envoy.count("unrouted.body_too_large"), 1);
}

#[test]
fn a_body_of_just_the_bound_is_routed() {
    let body = completion("base", 0..64);
    let mut stage = Stage::new();
    stage.config = route(&format!("{{\"role\":\"route\",\"max_body_bytes\":{}}}", body.len()));
    let exchange = stage.request(0, &body);
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
}
