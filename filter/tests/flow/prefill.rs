//! Prefill and decode on different targets: every protocol, every failure, every moment a client may leave.

use filter::host::fake::{Exchange, FakeAnswer, FakeCall};
use kv_routing::handoff::Protocol;
use kv_routing::policy::document::{Disaggregation, Document, OverLimit, Policy, RuleSet};
use kv_routing::target::TargetId;
use kv_routing::wire::{Booking, Bootstrap, BridgeShare, Health, Role, TargetEntry};
use serde_json::{Value, json};

use crate::stage::{Stage, Thread, answer, call, completion, target};

pub const PREFILL: [&str; 2] = ["10.0.0.1:8000", "10.0.0.2:8000"];
pub const DECODE: [&str; 2] = ["10.0.0.3:8000", "10.0.0.4:8000"];
const PARAMS: &str = r#"{"do_remote_prefill":true, "remote_engine_id":"e","big":18446744073709551615}"#;

/// Two prefill and two decode targets.
pub fn stage(protocol: Protocol) -> Stage {
    let mut stage = Stage::empty();
    let roles = [Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];
    stage.targets = (1..).zip(roles).map(|(slot, role)| TargetEntry { role, ..target(slot) }).collect();
    for (at, port) in [(0, 9001), (1, 9002)] {
        let bootstrap = Bootstrap { host: "10.0.0.9".into(), port, ranks: 1, engine_id: Some("e-9".into()) };
        stage.targets[at].bootstrap = Some(bootstrap);
    }
    stage.pools[0].handoff = protocol;
    stage.envoy.clusters.borrow_mut().extend(["prefill".into(), "workers".into()]);
    stage.push();
    stage
}

pub fn rule(stage: &mut Stage, change: impl FnOnce(&mut Disaggregation)) {
    let mut policy = Policy::named("p");
    change(&mut policy.disaggregation);
    let live = RuleSet { rules: vec![], policies: vec![policy], default_policy: 0 };
    stage.policy = Some(Document { version: 1, live, shadow: None });
    stage.push();
    stage.envoy.pass(10);
}

fn calls(stage: &Stage, exchange: &Exchange) -> Vec<FakeCall> {
    exchange.calls(&stage.threads[0].host)
}

pub fn nixl_answer() -> FakeAnswer {
    let body = format!(r#"{{"choices":[{{"finish_reason":"length"}}],"kv_transfer_params":{PARAMS}}}"#);
    FakeAnswer::of(200, body.as_bytes())
}

pub fn booked(stage: &Stage, endpoint: &str) -> Booking {
    Booking { peak_requests: 0, ..stage.threads[0].vm.ledger.booking(TargetId::of(endpoint, None)) }
}

fn body(stage: &Stage, exchange: &Exchange) -> Value {
    exchange.see(&stage.threads[0].host, |stream| {
        let length = stream.request_header("content-length");
        assert_eq!(length, [stream.request_body().len().to_string()]);
        serde_json::from_slice(stream.request_body()).unwrap()
    })
}

fn reply(stage: &Stage, exchange: &Exchange) -> (u32, String) {
    let reply = exchange.see(&stage.threads[0].host, |stream| stream.reply.clone());
    let (status, body) = reply.expect("an answer");
    (status, String::from_utf8(body).unwrap())
}

pub fn nothing_left(stage: &Stage) {
    let vm = &stage.threads[0].vm;
    assert_eq!((vm.ledger.requests(), vm.prefills.calls(), vm.prefills.kept()), (0, 0, 0));
}

fn reply_status(stage: &Stage, exchange: &Exchange) -> Option<u32> {
    exchange.see(&stage.threads[0].host, |stream| stream.reply.as_ref().map(|reply| reply.0))
}

fn released(stage: &Stage, exchange: &Exchange) -> bool {
    exchange.is_released(&stage.threads[0].host)
}

#[test]
fn decode_waits_for_the_parameters_of_the_prefill_that_has_the_cache() {
    let mut stage = stage(Protocol::Nixl);
    stage.holds(2, 0..160);
    let exchange = stage.open(
        0,
        "/v1/completions",
        &[("x-request-id", b"r-1"), ("content-length", b"7"), ("accept-encoding", b"gzip"), ("x-odd", b"\xff")],
    );
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &completion("base", 0..330), true);
    assert!(!released(&stage, &exchange));

    let sent = call(&stage, &exchange);
    assert_eq!((&*sent.cluster, sent.timeout_ms), ("prefill", 60_000));
    assert_eq!(sent.header("x-gateway-destination-endpoint"), Some(PREFILL[1]));
    assert_eq!(sent.header("x-request-id"), Some("r-1"));
    assert_eq!(
        (sent.header("content-length"), sent.header("accept-encoding"), sent.header("x-odd")),
        (None, None, None)
    );
    let asked: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!((&asked["max_tokens"], &asked["kv_transfer_params"]["do_remote_decode"]), (&json!(1), &json!(true)));
    assert_eq!(booked(&stage, PREFILL[1]), Booking { requests: 1, prefill_tokens: 170, ..Booking::default() });
    let decoding = |stage: &Stage| DECODE.map(|endpoint| booked(stage, endpoint).decode_blocks);
    assert_eq!(decoding(&stage).iter().sum::<u64>(), 21);

    stage.envoy.pass(3);
    answer(&mut stage, &exchange, nixl_answer());
    assert!(released(&stage, &exchange));
    let endpoints = stage.endpoints(0, &exchange);
    assert!(DECODE.contains(&&*endpoints[0]) && endpoints.len() == 2, "{endpoints:?}");
    let marked = exchange.see(&stage.threads[0].host, |stream| stream.request_header("x-kv-router-handoff"));
    assert_eq!(marked, ["nixl"], "by which a route tells that it must not be repeated");
    let sent = body(&stage, &exchange);
    assert_eq!(sent["kv_transfer_params"], serde_json::from_str::<Value>(PARAMS).unwrap());
    assert_eq!((sent["prompt"].as_array().unwrap().len(), sent.get("max_tokens")), (330, None));
    assert_eq!(booked(&stage, PREFILL[1]), Booking::default());
    let here = Booking { requests: 1, decode_blocks: 21, ..Booking::default() };
    assert_eq!(booked(&stage, &endpoints[0]), here, "no prefill is booked where there is none");
    let decision = stage.decision(0, &exchange);
    assert_eq!((&decision["target"], &decision["handoff"]["prefill"]), (&json!(endpoints[0]), &json!(PREFILL[1])));
    assert_eq!(
        (&decision["handoff"]["protocol"], &decision["handoff"]["overlap"]["device"]),
        (&json!("nixl"), &json!(10))
    );
    assert!(decision["handoff"]["wait_us"].as_u64() >= Some(3000), "{decision}");

    // The bridge is told where the chain is computed.
    stage.threads[0].tick();
    let told = stage.heartbeat().decisions;
    assert_eq!((told.len(), told[0].target, told[0].predicted_blocks), (1, stage.targets[1].id, 10));
    stage.finish(0, &exchange);
    nothing_left(&stage);
    let count = |name: &str| stage.envoy.count(name);
    assert_eq!((count("handoff.calls"), count("handoff.decodes"), count("handoff.failed")), (1, 1, 0));
    assert!(count("handoff.prefill_us") >= 3000 && count("routed") == 1);
    assert_eq!(count("prediction.over") + count("prediction.under") + count("prediction.right"), 0);
}

#[test]
fn the_next_request_avoids_the_prefill_target_that_is_busy() {
    let mut stage = stage(Protocol::Nixl);
    let first = stage.prompt(0..320);
    let second = stage.prompt(1000..1320);
    let to = |exchange| call(&stage, exchange).header("x-gateway-destination-endpoint").unwrap().to_owned();
    let mut both = [to(&first), to(&second)];
    both.sort();
    assert_eq!(both, PREFILL);
}

#[test]
fn sglang_is_called_on_both_sides_at_once() {
    let mut stage = stage(Protocol::Sglang);
    let exchange = stage.prompt(0..320);
    assert!(released(&stage, &exchange), "waiting would deadlock");
    let sent = call(&stage, &exchange);
    let prefill: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(prefill, body(&stage, &exchange));
    let port = if sent.header("x-gateway-destination-endpoint") == Some(PREFILL[0]) { 9001 } else { 9002 };
    assert_eq!((&prefill["bootstrap_host"], &prefill["bootstrap_port"]), (&json!("10.0.0.9"), &json!(port)));
    assert!(prefill["bootstrap_room"].as_i64().unwrap() >= 0);
    answer(&mut stage, &exchange, FakeAnswer::of(200, b"{}"));
    assert_eq!(PREFILL.map(|endpoint| booked(&stage, endpoint)), [Booking::default(); 2]);
    assert_eq!(stage.decision(0, &exchange)["handoff"]["wait_us"], 0);
    stage.finish(0, &exchange);
    nothing_left(&stage);

    // The answer to a call that comes after the response has begun interests nobody.
    let early = stage.prompt(0..320);
    let number = call(&stage, &early).number;
    let Thread { host, vm, .. } = &mut stage.threads[0];
    early.response(host, vm, 200, None);
    early.response_body(host, vm, b"data: x\n\n", false);
    assert_eq!(vm.prefills.calls(), 0);
    early.answer(host, vm, number, FakeAnswer::of(500, b""));
    early.done(host, vm);
    nothing_left(&stage);
}

#[test]
fn sglang_ranks_name_the_room() {
    let mut stage = stage(Protocol::Sglang);
    for entry in &mut stage.targets[..2] {
        entry.rank = Some(3);
        entry.id = TargetId::of(&entry.endpoint, Some(3));
        entry.bootstrap.as_mut().unwrap().ranks = 4;
    }
    stage.push();
    let exchange = stage.prompt(0..320);
    let sent = call(&stage, &exchange);
    let prefill: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(prefill["bootstrap_room"].as_u64().unwrap() % 4, 3);
    assert_eq!(sent.header("x-data-parallel-rank"), Some("3"));
}

#[test]
fn a_prefill_that_fails_beside_its_decode_call_ends_both() {
    for (status, told) in [(503, 503), (0, 503), (400, 400)] {
        let mut stage = stage(Protocol::Sglang);
        let exchange = stage.prompt(0..320);
        let failed = if status == 0 { FakeAnswer::reset() } else { FakeAnswer::of(status, b"{\"why\":1}") };
        answer(&mut stage, &exchange, failed);
        assert_eq!(reply(&stage, &exchange).0, told);
        // An Envoy in front that is told so repeats the pair, which then goes elsewhere.
        let header = |name: &str| {
            exchange.see(&stage.threads[0].host, |stream| {
                stream.reply_headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            })
        };
        let repeats = (told == 503).then_some("prefill");
        assert_eq!(header("x-kv-router-again").as_deref(), repeats);
        assert_eq!(header("retry-after").as_deref(), (told == 503).then_some("1"));
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, told, None);
        exchange.done(host, vm);
        nothing_left(&stage);
    }
}

/// An answer that has begun cannot be another one.
#[test]
fn a_prefill_that_fails_after_the_headers_of_its_decode_call_leaves_the_end_to_the_engine() {
    for status in [503, 400] {
        let mut stage = stage(Protocol::Sglang);
        let exchange = stage.prompt(0..320);
        let number = call(&stage, &exchange).number;
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, 200, Some(DECODE[0]));
        exchange.answer(host, vm, number, FakeAnswer::of(status, b"{}"));
        assert_eq!(reply_status(&stage, &exchange), None);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response_body(host, vm, b"data: {\"error\":{}}\n\n", true);
        exchange.done(host, vm);
        nothing_left(&stage);
        let counted = ["failed", "rejected", "unheard"].map(|name| stage.envoy.count(&format!("handoff.{name}")));
        assert_eq!(counted, [0, 0, 1]);
    }
}

#[test]
fn a_failed_pair_is_repeated_as_often_as_the_policy_says() {
    for (attempt, repeats) in [("1", true), ("2", true), ("3", false), ("no number", true)] {
        let mut stage = stage(Protocol::Sglang);
        rule(&mut stage, |rules| rules.prefill_retries = 2);
        let exchange = stage.open(0, "/v1/completions", &[("x-envoy-attempt-count", attempt.as_bytes())]);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.body(host, vm, &completion("base", 0..320), true);
        answer(&mut stage, &exchange, FakeAnswer::reset());
        let again = exchange.see(&stage.threads[0].host, |stream| {
            stream.reply_headers.iter().any(|(name, _)| name == "x-kv-router-again")
        });
        assert_eq!(again, repeats, "{attempt}");
    }
}

/// By whoever failed: a decode engine that fails before its first byte costs a new prefill.
#[test]
fn a_decode_engine_that_fails_has_the_whole_repeated() {
    for (status, retries, again) in [(500, 1, Some("decode")), (502, 1, Some("decode")), (500, 0, None), (429, 1, None)]
    {
        let mut stage = stage(Protocol::Nixl);
        rule(&mut stage, |rules| rules.prefill_retries = retries);
        let exchange = stage.prompt(0..320);
        answer(&mut stage, &exchange, nixl_answer());
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, status, Some(DECODE[0]));
        let told = exchange.see(host, |stream| stream.response_header("x-kv-router-again"));
        assert_eq!(told.as_deref(), again, "{status} {retries}");
    }
    let mut stage = stage(Protocol::Nixl);
    rule(&mut stage, |rules| rules.mode = kv_routing::policy::document::DisaggregationMode::Never);
    let whole = stage.prompt(0..320);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    whole.response(host, vm, 500, Some(DECODE[0]));
    assert_eq!(whole.see(host, |stream| stream.response_header("x-kv-router-again")), None);
}

#[test]
fn mooncake_and_trtllm_bodies() {
    let mut mooncake = stage(Protocol::Mooncake);
    let exchange = mooncake.prompt(0..320);
    let sent: Value = serde_json::from_slice(&call(&mooncake, &exchange).body).unwrap();
    answer(&mut mooncake, &exchange, FakeAnswer::of(200, b"{}"));
    let decode = body(&mooncake, &exchange);
    assert_eq!(sent["kv_transfer_params"]["transfer_id"], decode["kv_transfer_params"]["transfer_id"]);
    assert_eq!(decode["kv_transfer_params"]["remote_engine_id"], "e-9");

    let mut trtllm = stage(Protocol::TensorRtLlm);
    let exchange = trtllm.prompt(0..320);
    let sent: Value = serde_json::from_slice(&call(&trtllm, &exchange).body).unwrap();
    assert!(sent["disaggregated_params"]["disagg_request_id"].as_i64().is_some());
    let params = br#"{"choices":[{"disaggregated_params":{"ctx_request_id":18446744073709551615}}]}"#;
    answer(&mut trtllm, &exchange, FakeAnswer::of(200, params));
    let decode = body(&trtllm, &exchange);
    assert_eq!(decode["disaggregated_params"]["ctx_request_id"], 18_446_744_073_709_551_615_u64);
    assert_eq!(decode["disaggregated_params"]["request_type"], "generation_only");
}

#[test]
fn a_sidecar_is_told_where_to_prefill_and_clients_cannot_tell_it() {
    let mut stage = stage(Protocol::Header);
    stage.holds(1, 0..320);
    let exchange = stage.open(0, "/v1/completions", &[("x-prefiller-host-port", b"evil:1")]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, &completion("base", 0..320), true);
    assert!(released(&stage, &exchange) && calls(&stage, &exchange).is_empty());
    let seen = exchange.see(&stage.threads[0].host, |stream| stream.request_header("x-prefiller-host-port"));
    assert_eq!(seen, [PREFILL[0]]);
    let marked = exchange.see(&stage.threads[0].host, |stream| stream.request_header("x-kv-router-handoff"));
    assert!(marked.is_empty(), "a sidecar that is asked again prefills again");
    assert_eq!(booked(&stage, PREFILL[0]).requests, 1);
    stage.finish(0, &exchange);
    nothing_left(&stage);
}

/// Nothing is held here for it, and when the sidecar is through with the prefill is seen by the answer alone, which may take hours.
#[test]
fn what_a_sidecar_prefills_is_no_wait_and_is_booked_for_so_long_only() {
    let mut stage = stage(Protocol::Header);
    rule(&mut stage, |rules| (rules.max_waits, rules.max_wait_bytes, rules.prefill_timeout_ms) = (1, 1, 5_000));
    let exchanges = [stage.prompt(0..320), stage.prompt(1000..1320), stage.prompt(2000..2320)];
    assert!(exchanges.iter().all(|exchange| released(&stage, exchange)));
    assert_eq!((stage.envoy.count("handoff.over_limit"), stage.threads[0].vm.prefills.calls()), (0, 0));
    let queued = |stage: &Stage| PREFILL.map(|endpoint| booked(stage, endpoint).prefill_tokens).iter().sum::<u64>();
    assert_eq!(queued(&stage), 960);
    stage.envoy.pass(4_000);
    stage.threads[0].tick();
    assert_eq!(queued(&stage), 960);
    stage.envoy.pass(1_100);
    stage.threads[0].tick();
    assert_eq!((queued(&stage), stage.threads[0].vm.ledger.requests()), (0, 3), "the decode goes on");
    for exchange in &exchanges {
        stage.finish(0, exchange);
    }
    nothing_left(&stage);
    assert_eq!((stage.envoy.count("handoff.unheard"), stage.envoy.count("handoff.calls")), (0, 0));
}

fn failures() -> Vec<FakeAnswer> {
    let answered = |status, body: &str| FakeAnswer::of(status, body.as_bytes());
    vec![
        answered(503, ""),
        answered(504, "upstream request timeout"),
        answered(429, "{}"),
        // An adapter that this engine has not loaded, say.
        answered(404, r#"{"error":{"message":"no such model"}}"#),
        FakeAnswer::reset(),
        answered(200, r#"{"choices":[{"finish_reason":"length"}]}"#),
        answered(200, r#"{"choices":[{"finish_reason":"length"}],"kv_transfer_params":null}"#),
        answered(200, "no json"),
    ]
}

#[test]
fn a_failed_prefill_is_tried_once_more_elsewhere_and_then_done_without() {
    for (case, failed) in failures().into_iter().enumerate() {
        let mut stage = stage(Protocol::Nixl);
        let exchange = stage.prompt(0..320);
        let first = call(&stage, &exchange).header("x-gateway-destination-endpoint").unwrap().to_owned();
        answer(&mut stage, &exchange, failed.clone());
        let second = call(&stage, &exchange).header("x-gateway-destination-endpoint").unwrap().to_owned();
        assert_ne!(first, second, "case {case}");
        assert_eq!(booked(&stage, &first).requests, 0);
        answer(&mut stage, &exchange, failed);
        assert!(released(&stage, &exchange) && calls(&stage, &exchange).is_empty());
        let seen = exchange.see(&stage.threads[0].host, |stream| stream.request_body().to_vec());
        assert_eq!(seen, completion("base", 0..320), "the client's own body");
        let decision = stage.decision(0, &exchange);
        assert_eq!((&decision["whole"], decision.get("handoff")), (&json!("prefill_failed"), None));
        let here = booked(&stage, decision["target"].as_str().unwrap());
        assert_eq!((here.requests, here.prefill_tokens, here.decode_blocks), (1, 320, 20));
        stage.finish(0, &exchange);
        nothing_left(&stage);
        let misconfigured: usize = if case > 4 { 2 } else { 0 };
        let logged =
            stage.envoy.logs.borrow().iter().filter(|(_, line)| line.contains("prefill worker 10.0.0.")).count();
        assert_eq!(logged, misconfigured.min(1), "once in a while");
        let count = |name: &str| stage.envoy.count(name) as usize;
        assert_eq!((count("handoff.misconfigured"), count("handoff.failed")), (misconfigured, 2 - misconfigured));
        assert_eq!(count("handoff.whole"), 1);
        assert_eq!(stage.envoy.count("routed"), 1);
    }
}

#[test]
fn a_second_prefill_that_works_is_no_failure_of_the_request() {
    let mut stage = stage(Protocol::Nixl);
    let exchange = stage.prompt(0..320);
    answer(&mut stage, &exchange, FakeAnswer::of(500, b""));
    let second = call(&stage, &exchange).header("x-gateway-destination-endpoint").unwrap().to_owned();
    answer(&mut stage, &exchange, nixl_answer());
    assert_eq!(stage.decision(0, &exchange)["handoff"]["prefill"], json!(second));
    stage.finish(0, &exchange);
    nothing_left(&stage);
}

#[test]
fn the_second_prefill_target_is_told_of_with_its_own_numbers() {
    let mut stage = stage(Protocol::Nixl);
    stage.holds(1, 0..160);
    stage.holds(2, 0..64);
    // However few endpoints a policy names, every prefill target may be tried.
    let mut policy = Policy::named("p");
    policy.fallbacks = 0;
    stage.policy = Some(Document {
        version: 1,
        live: RuleSet { rules: vec![], policies: vec![policy], default_policy: 0 },
        shadow: None,
    });
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..320);
    assert_eq!(booked(&stage, PREFILL[0]), Booking { requests: 1, prefill_tokens: 160, ..Booking::default() });
    answer(&mut stage, &exchange, FakeAnswer::of(500, b""));
    assert_eq!(booked(&stage, PREFILL[1]), Booking { requests: 1, prefill_tokens: 256, ..Booking::default() });
    answer(&mut stage, &exchange, nixl_answer());
    let handoff = &stage.decision(0, &exchange)["handoff"];
    assert_eq!((&handoff["prefill"], &handoff["overlap"]["device"]), (&json!(PREFILL[1]), &json!(4)));
    stage.threads[0].tick();
    let told: Vec<_> = stage.heartbeat().decisions.iter().map(|told| (told.answered, told.predicted_blocks)).collect();
    assert_eq!(told, [(false, 10), (true, 4)]);
    assert_eq!(stage.envoy.count("predicted_tokens"), 64);
    stage.finish(0, &exchange);
    nothing_left(&stage);
}

#[test]
fn a_policy_says_how_often_each_phase_is_tried_again() {
    for retries in [0, 1, 2] {
        let mut stage = stage(Protocol::Nixl);
        rule(&mut stage, |rules| (rules.prefill_retries, rules.decode_retries) = (retries, Some(retries)));
        let exchange = stage.prompt(0..320);
        let mut tried = 0;
        while calls(&stage, &exchange).len() == 1 {
            tried += 1;
            answer(&mut stage, &exchange, FakeAnswer::of(503, b""));
        }
        assert_eq!(tried, (retries + 1).min(2), "there are two");
        assert_eq!(stage.decision(0, &exchange)["whole"], "prefill_failed");
        stage.envoy.pass(2_000);
        let handed = stage.prompt(0..320);
        answer(&mut stage, &handed, nixl_answer());
        let told = handed.see(&stage.threads[0].host, |stream| stream.request_header("x-envoy-max-retries"));
        assert_eq!(told, [retries.to_string()]);
    }
}

/// The bridge may not know yet that a prefill target is gone, and its cache draws requests.
#[test]
fn a_prefill_target_that_failed_is_passed_over_for_a_second() {
    let mut stage = stage(Protocol::Nixl);
    stage.holds(1, 0..320);
    let to = |stage: &Stage, exchange: &Exchange| {
        call(stage, exchange).header("x-gateway-destination-endpoint").map(str::to_owned)
    };
    let first = stage.prompt(0..320);
    assert_eq!(to(&stage, &first).as_deref(), Some(PREFILL[0]));
    answer(&mut stage, &first, FakeAnswer::reset());
    stage.envoy.pass(900);
    let soon = stage.prompt(0..320);
    assert_eq!(to(&stage, &soon).as_deref(), Some(PREFILL[1]));
    stage.envoy.pass(200);
    let later = stage.prompt(0..320);
    assert_eq!(to(&stage, &later).as_deref(), Some(PREFILL[0]));
    // The last one is tried, whatever was.
    stage.targets[1].health = Health::Unhealthy;
    stage.push();
    answer(&mut stage, &later, FakeAnswer::reset());
    stage.envoy.pass(10);
    let last = stage.prompt(0..320);
    assert_eq!(to(&stage, &last).as_deref(), Some(PREFILL[0]));
}

#[test]
fn prefill_calls_add_up() {
    let mut stage = stage(Protocol::Nixl);
    let answers = [
        FakeAnswer::of(400, b"{}"),
        FakeAnswer::of(503, b""),
        FakeAnswer::of(200, b"no json"),
        FakeAnswer::reset(),
        FakeAnswer::of(429, b"{}"),
        nixl_answer(),
    ];
    for (round, first) in answers.into_iter().enumerate() {
        for leaves in [false, true] {
            // Those that failed are no longer passed over.
            stage.envoy.pass(1_100);
            stage.heartbeat();
            let exchange = stage.prompt(0..320);
            stage.envoy.pass(3);
            if leaves {
                let number = call(&stage, &exchange).number;
                let Thread { host, vm, .. } = &mut stage.threads[0];
                exchange.done(host, vm);
                host.answer(vm, number, first.clone());
                let frees: Vec<u32> = host.sent.borrow().iter().map(|call| call.number).collect();
                assert_eq!(frees.len(), usize::from(round == 5), "{round}");
                for number in frees {
                    host.answer(vm, number, FakeAnswer::of(200, b"{}"));
                }
                continue;
            }
            answer(&mut stage, &exchange, first.clone());
            while calls(&stage, &exchange).len() == 1 {
                answer(&mut stage, &exchange, nixl_answer());
            }
            if reply_status(&stage, &exchange).is_some() {
                let Thread { host, vm, .. } = &mut stage.threads[0];
                exchange.response(host, vm, 400, None);
                exchange.done(host, vm);
            } else {
                stage.finish(0, &exchange);
            }
        }
    }
    stage.envoy.clusters.borrow_mut().remove("prefill");
    let unsent = stage.prompt(0..320);
    stage.finish(0, &unsent);
    nothing_left(&stage);
    let count = |name: &str| stage.envoy.count(name);
    let parts = ["prefills", "rejected", "failed", "unheard"].map(|name| count(&format!("handoff.{name}")));
    // Each second call of a request succeeds; the last request finds no cluster, twice.
    assert_eq!(parts, [2 + 2 + 4, 2, 6 + 2, 0]);
    assert_eq!(count("handoff.calls"), parts.iter().sum::<u64>());
    assert_eq!(count("handoff.prefill_us") / 1000, 3 * 4);
    assert_eq!((count("handoff.misconfigured"), count("handoff.freed"), count("handoff.given_up")), (2, 1, 1));
}

#[test]
fn without_aggregated_serving_a_failed_prefill_is_a_503_that_names_the_phase() {
    for failed in failures() {
        let mut stage = stage(Protocol::Nixl);
        rule(&mut stage, |rules| rules.aggregated_fallback = false);
        let exchange = stage.prompt(0..320);
        answer(&mut stage, &exchange, failed.clone());
        answer(&mut stage, &exchange, failed);
        let (status, text) = reply(&stage, &exchange);
        assert!(status == 503 && text.contains("prefill"), "{status} {text}");
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, 503, None);
        exchange.done(host, vm);
        nothing_left(&stage);
    }
}

#[test]
fn a_prefill_cluster_that_does_not_exist_is_a_failure_too() {
    let mut stage = stage(Protocol::Nixl);
    stage.envoy.clusters.borrow_mut().clear();
    let exchange = stage.prompt(0..320);
    assert_eq!(stage.decision(0, &exchange)["whole"], "prefill_failed");
    stage.finish(0, &exchange);
    nothing_left(&stage);
}

#[test]
fn an_answer_that_is_complete_already_and_one_that_blames_the_client() {
    let mut stage = stage(Protocol::Nixl);
    let complete = stage.prompt(0..320);
    answer(&mut stage, &complete, FakeAnswer::of(200, br#"{"choices":[{"finish_reason":"stop"}]}"#));
    assert_eq!(stage.decision(0, &complete)["whole"], "finished");
    stage.finish(0, &complete);
    let bad = stage.prompt(0..320);
    answer(&mut stage, &bad, FakeAnswer::of(400, b"{\"error\":\"too long\"}"));
    assert_eq!(reply(&stage, &bad), (400, "{\"error\":\"too long\"}".to_owned()));
    assert_eq!(stage.decision(0, &bad)["unrouted"], "prefill_answered");
    let Thread { host, vm, .. } = &mut stage.threads[0];
    bad.response(host, vm, 400, None);
    bad.done(host, vm);
    nothing_left(&stage);
    assert_eq!((stage.envoy.count("handoff.failed"), stage.envoy.count("handoff.misconfigured")), (0, 0));
}

#[test]
fn prefill_calls_are_bounded_in_number_and_bytes() {
    for (by_bytes, over) in [(true, OverLimit::Aggregated), (false, OverLimit::Reject)] {
        let mut stage = stage(Protocol::Nixl);
        rule(&mut stage, |rules| {
            rules.over_limit = over;
            if by_bytes {
                rules.max_wait_bytes = 2000;
            } else {
                rules.max_waits = 1;
            }
        });
        let first = stage.prompt(0..320);
        let second = stage.prompt(1000..1320);
        assert_eq!((calls(&stage, &first).len(), calls(&stage, &second).len()), (1, 0));
        match over {
            OverLimit::Aggregated => assert_eq!(stage.decision(0, &second)["whole"], "limit"),
            OverLimit::Reject => {
                let (status, text) = reply(&stage, &second);
                assert!(status == 503 && text.contains("prefill: too many prefill calls"), "{text}");
                assert_eq!(stage.decision(0, &second)["whole"], "limit");
                assert_eq!(stage.envoy.count("handoff.refused"), 1);
            }
        }
        answer(&mut stage, &first, nixl_answer());
        let third = stage.prompt(2000..2320);
        assert_eq!(calls(&stage, &third).len(), 1, "a place is free again");
        assert_eq!(stage.envoy.count("handoff.over_limit"), 1);
    }
}

#[test]
fn a_pool_without_living_prefill_targets_serves_whole_or_refuses() {
    let mut stage = stage(Protocol::Nixl);
    stage.targets[0].health = Health::Unhealthy;
    stage.targets[1].health = Health::Unhealthy;
    stage.push();
    let exchange = stage.prompt(0..320);
    assert_eq!(stage.decision(0, &exchange)["whole"], "no_prefill");
    assert!(DECODE.contains(&&*stage.endpoints(0, &exchange)[0]));
    stage.finish(0, &exchange);
    rule(&mut stage, |rules| rules.aggregated_fallback = false);
    let refused = stage.prompt(0..320);
    let (status, text) = reply(&stage, &refused);
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &body["error"]["type"], &body["error"]["code"]),
        (503, &json!("overloaded_error"), &json!(503))
    );
    assert_eq!(body["error"]["message"], "prefill: no prefill worker can take this request");
    let state = stage.decision(0, &refused);
    assert_eq!(
        (&state["refused"], &state["whole"], &state["policy"]),
        (&json!(503), &json!("no_prefill"), &json!("p"))
    );
    assert_eq!(state["reason"], body["error"]["message"]);
    let count = |name: &str| stage.envoy.count(name);
    assert_eq!((count("handoff.no_prefill"), count("handoff.whole"), count("handoff.refused")), (2, 1, 1));

    stage.targets[1].health = Health::Healthy;
    stage.push();
    stage.envoy.pass(10);
    let back = stage.prompt(0..320);
    assert_eq!(call(&stage, &back).header("x-gateway-destination-endpoint"), Some(PREFILL[1]));
}

#[test]
fn engines_that_serve_nothing_whole_get_nothing_that_cannot_be_handed_over() {
    let mut stage = stage(Protocol::Sglang);
    let embedding = stage.open(0, "/v1/embeddings", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    embedding.body(host, vm, br#"{"model":"base","input":[1,2,3]}"#, true);
    let (status, text) = reply(&stage, &embedding);
    assert!(status == 503 && text.contains("serves a request whole"), "{status} {text}");
}

/// Prompts that the bridge renders may name the tool that the client demands; those that are rendered here do not.
#[test]
fn one_token_is_no_tool_call_unless_the_prompt_tells() {
    for (bridge, choice) in [(BridgeShare::None, Value::Null), (BridgeShare::Chats, json!("required"))] {
        let mut stage = stage(Protocol::Nixl);
        stage.pools[0].bridge = bridge;
        stage.push();
        let client = [br#"{"tool_choice":"required","#, &completion("base", 0..320)[1..]].concat();
        let exchange = stage.request(0, &client);
        let sent: Value = serde_json::from_slice(&call(&stage, &exchange).body).unwrap();
        assert_eq!(sent["tool_choice"], choice);
        answer(&mut stage, &exchange, nixl_answer());
        assert_eq!(body(&stage, &exchange)["tool_choice"], "required");
    }
}

#[test]
fn what_cannot_be_handed_over_is_served_whole() {
    let mut stage = stage(Protocol::Nixl);
    for several in [r#""prompt":[[1,2],[3,4]]"#, r#""n":2,"prompt":[1,2]"#] {
        let several = stage.request(0, format!(r#"{{"model":"base",{several}}}"#).as_bytes());
        assert!(released(&stage, &several) && calls(&stage, &several).is_empty());
    }
    let embedding = stage.open(0, "/v1/embeddings", &[]);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    embedding.body(host, vm, br#"{"model":"base","input":[1,2,3]}"#, true);
    assert!(released(&stage, &embedding) && calls(&stage, &embedding).is_empty());
}

#[test]
fn a_client_may_leave_at_any_moment() {
    for protocol in [Protocol::Nixl, Protocol::Sglang, Protocol::Header] {
        for phase in 0..3 {
            let mut stage = stage(protocol);
            let exchange = stage.prompt(0..320);
            if protocol == Protocol::Nixl {
                answer(&mut stage, &exchange, nixl_answer());
            }
            let Thread { host, vm, .. } = &mut stage.threads[0];
            if phase == 0 {
                // Envoy has reached the engine, which frees by itself what it does not need.
                exchange.connected(host, DECODE[0]);
            } else {
                exchange.response(host, vm, 200, Some(DECODE[0]));
            }
            if phase > 1 {
                exchange.response_body(host, vm, b"data: x\n\n", false);
            }
            exchange.done(host, vm);
            nothing_left(&stage);
            assert_eq!(stage.envoy.count("unrouted.ended_early"), 0, "{protocol:?} {phase}");
            stage.threads[0].tick();
        }
    }
}

#[test]
fn the_phases_of_a_streamed_answer_are_timed_apart() {
    for stream in [true, false] {
        let mut stage = stage(Protocol::Nixl);
        let body = [format!("{{\"stream\":{stream},").as_bytes(), &completion("base", 0..320)[1..]].concat();
        let exchange = stage.request(0, &body);
        stage.envoy.pass(5);
        answer(&mut stage, &exchange, nixl_answer());
        stage.envoy.pass(20);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, 200, None);
        stage.envoy.pass(300);
        exchange.response_body(host, vm, b"data: x\n\n", false);
        stage.envoy.pass(4000);
        exchange.response_body(host, vm, b"data: y\n\n", true);
        exchange.done(host, vm);
        let count = |name: &str| stage.envoy.count(name) / 1000;
        assert_eq!((count("handoff.prefill_us"), stage.envoy.count("handoff.prefills")), (5, 1));
        let phases = (count("handoff.accept_us"), count("handoff.first_byte_us"), stage.envoy.count("handoff.streams"));
        assert_eq!(phases, if stream { (20, 300, 1) } else { (0, 0, 0) });
    }
}

#[test]
fn an_error_of_the_decode_engine_is_no_phase_of_an_answer() {
    let mut stage = stage(Protocol::Nixl);
    let body = [&b"{\"stream\":true,"[..], &completion("base", 0..320)[1..]].concat();
    let exchange = stage.request(0, &body);
    answer(&mut stage, &exchange, nixl_answer());
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 500, None);
    exchange.response_body(host, vm, b"no such transfer", true);
    exchange.done(host, vm);
    nothing_left(&stage);
    let count = |name: &str| stage.envoy.count(name);
    assert_eq!((count("handoff.accept_us"), count("handoff.first_byte_us"), count("handoff.streams")), (0, 0, 0));
}
