//! Clients that leave, in every phase of a hand-over.

use std::pin::pin;
use std::time::Duration;

use e2e::bridge::Worker;
use e2e::client::{Body, Client, json as to_json};
use e2e::disagg::{self, Split, with_role};
use e2e::engine::Engine;
use e2e::gate::Gate;
use e2e::prompt;
use e2e::stack::{Options, Stack};
use e2e::wait;
use http_body_util::BodyExt;
use hyper::{Request, StatusCode};
use mock_engine::{EngineConfig, PdProtocol, Role, Speed, TransferConfig};
use serde_json::json;

use super::{config, expect_no_bookings};

/// Blocks that nobody fetched are held this long.
const HOLD: Duration = Duration::from_secs(5);

/// Of so many clients one may have its blocks held until their time is over: the engine that got its decode call was left before it had looked
/// at it.
const CLIENTS_PER_LOSS: u64 = 500;

/// SGLang's engines wait this long for each other.
const RENDEZVOUS: Duration = Duration::from_millis(1500);

/// What becomes of the last client's blocks is known this soon after the engines are idle.
const SETTLED: Duration = Duration::from_secs(1);

/// How often the engines are looked at: phases last many times longer.
const TICK: Duration = Duration::from_millis(1);

/// What is under way when a client leaves.
#[derive(Clone, Copy, Debug)]
enum During {
    Prefill,
    /// The decode engine has the request, and fetches.
    Transfer,
    Streaming,
}

impl During {
    const ALL: [Self; 3] = [Self::Prefill, Self::Transfer, Self::Streaming];
}

/// A prompt takes about 25 ms to prefill and to fetch, and an answer twice that.
fn measured(protocol: PdProtocol) -> EngineConfig {
    let speed = Speed { prefill_tokens_per_s: 20_000.0, decode_ms_per_token: 2.0, speedup: 1.0 };
    let transfer = TransferConfig {
        // SGLang's engines free by themselves what nobody fetches.
        hold_timeout: if protocol == PdProtocol::Sglang { RENDEZVOUS } else { HOLD },
        rendezvous_timeout: RENDEZVOUS,
        tokens_per_s: 20_000.0,
        ..config(protocol).transfer
    };
    EngineConfig { speed, transfer, ..config(protocol) }
}

/// Requests being computed by all `engines`, and waiting there.
fn load(engines: &[Engine]) -> (usize, usize) {
    engines.iter().map(Engine::load).fold((0, 0), |sum, (running, waiting)| (sum.0 + running, sum.1 + waiting))
}

/// Breaks a request off in that phase, the last one after some `chunks`; false when the answer was faster. Nothing else may be under way.
async fn leave(split: &Split, request: Request<Body>, during: During, chunks: u64) -> bool {
    // A connection of its own, which breaks with the request.
    let client = Client::new();
    let mut opening = pin!(client.open(request));
    let mut prefilled = false;
    let answer = loop {
        tokio::select! {
            answer = &mut opening => break answer.expect("an answer"),
            () = tokio::time::sleep(TICK) => {}
        }
        let prefilling = load(&split.prefill) != (0, 0);
        prefilled |= prefilling;
        let (decoding, fetching) = load(&split.decode);
        match during {
            During::Prefill if prefilling => return true,
            During::Transfer if prefilled && !prefilling && fetching > 0 && decoding == 0 => return true,
            During::Prefill | During::Transfer | During::Streaming => {}
        }
    };
    assert_eq!(answer.status(), StatusCode::OK);
    let mut stream = answer.into_body();
    for _ in 0..chunks {
        stream.frame().await.expect("more of the answer").expect("an unbroken answer");
    }
    matches!(during, During::Streaming) && load(&split.decode).0 > 0
}

/// Sends `count` requests for each phase, one after the other, and breaks them off in it.
async fn abort(protocol: PdProtocol, count: u64) {
    let split = Split::start(&measured(protocol), 2, 2).await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    let mut left = [0; During::ALL.len()];
    for serial in 0..count * During::ALL.len() as u64 {
        let (phase, round) = ((serial % 3) as usize, serial / 3);
        let during = During::ALL[phase];
        let mut document = prompt::question("mock", serial, 200);
        document["max_tokens"] = 30.into();
        document["stream"] = (matches!(during, During::Streaming) || round.is_multiple_of(2)).into();
        left[phase] += u64::from(leave(&split, to_json(&url, &document), during, 1 + round % 4).await);
        // Envoy lets prefill calls go on whose client has left: what was asked for is computed, held, and freed.
        // Between its end and the call that frees its blocks both sides are idle for a moment.
        let mut idle = 0;
        wait::until("idle engines", Duration::from_secs(10), async || {
            let is_idle = load(&split.prefill) == (0, 0) && load(&split.decode) == (0, 0);
            idle = if is_idle { idle + 1 } else { 0 };
            (idle == 3).then_some(())
        })
        .await;
    }
    println!("{protocol:?}: of {count} clients each, left during prefill, transfer, streaming: {left:?}");
    assert!(left.iter().all(|left| *left >= count * 3 / 5), "a phase is hardly hit: {left:?} of {count}");
    tokio::time::sleep(SETTLED).await;
    if protocol != PdProtocol::Sglang {
        let envoy = &split.stack.envoy;
        let freed = envoy.stat("kv_router.handoff.freed").await;
        let prefills = envoy.stat("kv_router.handoff.calls").await;
        let lost = prefills - split.pulled().await;
        println!("{protocol:?}: {freed} of {prefills} prefills freed for clients that left, {lost} left to the engine");
        assert!(freed >= left[0] && lost * CLIENTS_PER_LOSS <= 3 * count, "{freed} {lost}");
        let told = envoy.stat("kv_router.handoff.free_failed").await;
        assert!(told <= lost, "{told} of {lost}");
    }
    wait::until("no held blocks", HOLD + SETTLED, async || (split.held_blocks() == 0).then_some(())).await;
    expect_no_bookings(&split).await;
    // And everything still works.
    split.stack.chat(&prompt::question("mock", 1_000_000, 200)).await.expect_ok();
    assert_eq!(split.stack.envoy.stat("kv_router.unrouted.internal").await, 0);
}

/// As many for each phase as `ABORTS` says; the default is what every test run can afford.
fn count() -> u64 {
    std::env::var("ABORTS").map_or(20, |text| text.parse().expect("ABORTS is a number"))
}

#[tokio::test]
async fn clients_that_leave_a_waiting_prefill_leave_nothing_behind() {
    abort(PdProtocol::Nixl, count()).await;
}

#[tokio::test]
async fn clients_that_leave_a_transfer_by_id_leave_nothing_behind() {
    abort(PdProtocol::Mooncake, count()).await;
}

#[tokio::test]
async fn clients_that_leave_a_context_phase_leave_nothing_behind() {
    abort(PdProtocol::Trtllm, count()).await;
}

#[tokio::test]
async fn clients_that_leave_two_calls_at_once_leave_nothing_behind() {
    abort(PdProtocol::Sglang, count()).await;
}

/// Envoy is still connecting to the decode engine: nobody has been told of the blocks, and so the filter has them fetched.
#[tokio::test]
async fn a_client_that_leaves_while_its_decode_call_connects_leaves_nothing_behind() {
    let protocol = PdProtocol::Nixl;
    let prefill = Engine::start(with_role(&measured(protocol), Role::Prefill)).await;
    let decode = Engine::start(with_role(&measured(protocol), Role::Decode)).await;
    let mut gate = Gate::to(decode.address().parse().expect("an address"));
    let mut pool = disagg::pool(protocol);
    pool["probe"] = json!({"interval_ms": 60_000, "timeout_ms": 1000});
    let options = Options { envoy: disagg::envoy(protocol), pool, ..Options::default() };
    let behind = Worker { address: gate.address.to_string(), ..decode.worker() };
    let stack = Stack::start(&[prefill.worker(), behind], options).await;
    let split = Split { stack, prefill: vec![prefill], decode: vec![decode] };
    split.stack.chat(&prompt::question("mock", 1, 200)).await.expect_ok();
    assert_eq!(split.pulled().await, 1);
    gate.shut().await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    let client = Client::new();
    let mut opening = Box::pin(client.open(to_json(&url, &prompt::question("mock", 2, 200))));
    let held = wait::until("held blocks", Duration::from_secs(5), async || (split.held_blocks() > 0).then_some(()));
    tokio::select! {
        answer = &mut opening => panic!("an answer: {answer:?}"),
        _ = held => {}
    }
    // The prefill engine has answered, and Envoy has begun to connect.
    wait::until("a decode call", Duration::from_secs(5), async || {
        (split.stack.envoy.stat("kv_router.handoff.decodes").await == 2).then_some(())
    })
    .await;
    drop(opening);
    drop(client);
    wait::until("a client that left", Duration::from_secs(5), async || {
        (split.stack.envoy.stat("http.ingress.downstream_rq_rx_reset").await
            + split.stack.envoy.stat("http.ingress.downstream_cx_destroy_remote_active_rq").await
            > 0)
        .then_some(())
    })
    .await;
    gate.open();
    // Well before the engine frees them by itself.
    let (_, took) = wait::until("no held blocks", HOLD / 2, async || (split.held_blocks() == 0).then_some(())).await;
    println!("freed {took:?} after the decode engine could be reached");
    wait::until("the answer to the call that freed them", HOLD, async || {
        (split.stack.envoy.stat("kv_router.handoff.freed").await == 1).then_some(())
    })
    .await;
    expect_no_bookings(&split).await;
}

/// A prefill call asks for one token, whatever the client asks for: the decode engine is the first to see what is wrong with that.
#[tokio::test]
async fn bodies_that_only_the_decode_engine_refuses_leave_nothing_behind() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Mooncake, PdProtocol::Trtllm] {
        let split = Split::start(&measured(protocol), 1, 1).await;
        let mut document = prompt::question("mock", 1, 200);
        document["max_tokens"] = 0.into();
        let reply = split.stack.chat(&document).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text());
        assert!(reply.text().contains("max_tokens"), "{}", reply.text());
        // Well before the engine frees them by itself.
        wait::until("no held blocks", HOLD / 2, async || (split.held_blocks() == 0).then_some(())).await;
        wait::until("the answer to the call that freed them", HOLD, async || {
            (split.stack.envoy.stat("kv_router.handoff.freed").await == 1).then_some(())
        })
        .await;
        assert_eq!(split.pulled().await, 1, "{protocol:?}");
        expect_no_bookings(&split).await;
    }
}
