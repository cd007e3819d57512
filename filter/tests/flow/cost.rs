//! What a routed request costs in calls to Envoy. Calls that return data cost 3 to 6 us each, the others 0.5 to 1.5 us.

use std::collections::BTreeMap;

use crate::stage::{Stage, Thread, completion};

/// A request on a busy thread: the manifest and the rows of others were just read.
#[test]
fn a_routed_request_makes_few_calls() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let warm = stage.prompt(0..320);
    stage.finish(0, &warm);
    stage.envoy.pass(3);
    let second = stage.prompt(0..320);
    stage.threads[0].host.forget_calls();

    let body = completion("base", 0..320);
    let exchange = stage.open(0, "/v1/completions", &[("content-type", b"application/json")]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &body, true);
    let list = exchange.see(host, |stream| stream.request_header("x-gateway-destination-endpoint"));
    let chosen = list[0].split(',').next().unwrap().to_owned();
    exchange.response(host, vm, 200, Some(&chosen));
    exchange.response_body(host, vm, b"{\"usage\":{}}", false);
    exchange.response_body(host, vm, b"", true);
    exchange.done(host, vm);
    let calls = host.calls();
    let returning_data = ["request_headers", "request_body", "shared", "response_header", "response_body", "attribute"];
    let data: BTreeMap<_, _> = calls.iter().filter(|(name, _)| returning_data.contains(name)).collect();
    let others: u32 = calls.iter().filter(|(name, _)| !returning_data.contains(name)).map(|(_, count)| count).sum();
    assert_eq!(data.values().copied().sum::<u32>(), 7, "two pages are read: {data:?}");
    assert!(others <= 14, "{calls:?}");
    drop(second);
}
