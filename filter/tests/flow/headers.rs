use filter::host::fake::Exchange;

use crate::stage::{Stage, Thread, completion, route};

const OWN: [&str; 3] = ["x-gateway-destination-endpoint", "x-data-parallel-rank", "x-gateway-model-name"];

fn forged() -> Vec<(&'static str, &'static [u8])> {
    OWN.iter().flat_map(|name| [(*name, &b"1.2.3.4:5"[..]), (*name, &b"\xff\xfe"[..])]).collect()
}

#[test]
fn routing_headers_of_the_client_are_removed_on_every_path() {
    for path in ["/v1/models", "/", "/metrics", "/v1/chat/completions"] {
        let mut stage = Stage::new();
        let exchange = stage.open(0, path, &forged());
        for name in OWN {
            let left = exchange.see(&stage.threads[0].host, |stream| stream.request_header(name));
            assert!(left.is_empty(), "{path} {name} {left:?}");
        }
        assert_eq!(stage.envoy.count("stripped_headers"), 3);
    }
}

#[test]
fn they_are_removed_although_nothing_was_ever_pushed() {
    let mut stage = Stage::empty();
    let exchange = stage.open(0, "/v1/completions", &forged());
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &completion("base", 0..64), true);
    assert_eq!(stage.unrouted(0, &exchange), "no_manifest");
}

#[test]
fn other_requests_cost_one_call_and_keep_the_route_cache() {
    let mut stage = Stage::new();
    stage.threads[0].host.forget_calls();
    let exchange = stage.open(0, "/v1/files", &[("user-agent", b"x")]);
    assert!(exchange.is_released(&stage.threads[0].host));
    let calls = stage.threads[0].host.calls();
    assert_eq!(calls.into_iter().collect::<Vec<_>>(), [("request_headers", 1)]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, b"anything", true);
    exchange.response(host, vm, 200, Some("10.0.0.1:8000"));
    exchange.response_body(host, vm, b"x", true);
    let seen = exchange.done(host, vm);
    assert!(seen.filter_state.is_empty());
    assert_eq!(stage.envoy.count("requests"), 0);
}

#[test]
fn headers_that_are_no_text_harm_nothing() {
    let mut stage = Stage::new();
    let odd: &[(&str, &[u8])] = &[("x-odd", b"\xff\x00\xfe"), ("user-agent", b"caf\xe9"), ("content-length", b"\x80")];
    let exchange = stage.open(0, "/v1/completions", odd);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &completion("base", 0..64), true);
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
    assert_eq!(exchange.see(&stage.threads[0].host, |stream| stream.request_header("x-odd")).len(), 1);
}

#[test]
fn a_path_that_is_no_text_or_missing_passes() {
    let mut stage = Stage::new();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    for headers in [vec![(":path", &b"/v1/\xff"[..])], vec![(":method", &b"CONNECT"[..])], vec![]] {
        let exchange = Exchange::open(host, vm, &stage.config, &headers, false);
        assert!(exchange.is_released(host));
    }
}

#[test]
fn a_request_without_a_body_passes_and_is_counted() {
    let mut stage = Stage::new();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    let exchange = Exchange::open(host, vm, &stage.config, &[(":method", b"GET"), (":path", b"/v1/completions")], true);
    assert_eq!(stage.unrouted(0, &exchange), "no_body");
    assert_eq!(stage.envoy.count("unrouted.no_body"), 1);
}

#[test]
fn a_query_does_not_hide_an_inference_path() {
    let mut stage = Stage::new();
    let exchange = stage.open(0, "/v1/completions?api-version=1", &[]);
    assert!(!exchange.is_released(&stage.threads[0].host), "headers wait for the body");
}

#[test]
fn rank_and_model_headers_are_set_when_there_is_something_to_say() {
    let mut stage = Stage::empty();
    stage.config = route(r#"{"role":"route","model_header":true}"#);
    stage.targets.truncate(1);
    stage.targets[0].rank = Some(5);
    stage.push();
    let exchange = stage.request(0, &completion("lora", 0..64));
    let host = &stage.threads[0].host;
    assert_eq!(exchange.see(host, |stream| stream.request_header("x-data-parallel-rank")), ["5"]);
    assert_eq!(exchange.see(host, |stream| stream.request_header("x-gateway-model-name")), ["lora"]);

    stage.targets[0].rank = None;
    stage.push();
    stage.envoy.pass(10);
    stage.config = route(r#"{"role":"route"}"#);
    let exchange = stage.request(0, &completion("base", 0..64));
    let host = &stage.threads[0].host;
    assert!(exchange.see(host, |stream| stream.request_header("x-data-parallel-rank")).is_empty());
    assert!(exchange.see(host, |stream| stream.request_header("x-gateway-model-name")).is_empty());
}
