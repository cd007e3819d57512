//! Clients that leave, in every phase of a hand-over.

use std::pin::pin;
use std::time::Duration;

use e2e::client::{Body, Client, json};
use e2e::disagg::Split;
use e2e::engine::Engine;
use e2e::prompt;
use e2e::wait;
use http_body_util::BodyExt;
use hyper::{Request, StatusCode};
use mock_engine::{EngineConfig, PdProtocol, Speed, TransferConfig};

use super::{config, expect_no_bookings};

/// Blocks that nobody fetched are held this long.
const HOLD: Duration = Duration::from_secs(5);

/// Of so many clients one may leave while the connection for its decode call is being made, or the call that frees its blocks fails: they are
/// held until their time is over.
const CLIENTS_PER_LOSS: u64 = 25;

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

/// Sends `count` requests, one after the other, and breaks a third of them off in each phase.
async fn abort(protocol: PdProtocol, count: u64) {
    let split = Split::start(&measured(protocol), 2, 2).await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    let mut left = [0; During::ALL.len()];
    for serial in 0..count {
        let (phase, round) = ((serial % 3) as usize, serial / 3);
        let during = During::ALL[phase];
        let mut document = prompt::question("mock", serial, 200);
        document["max_tokens"] = 30.into();
        document["stream"] = (matches!(during, During::Streaming) || round.is_multiple_of(2)).into();
        left[phase] += u64::from(leave(&split, json(&url, &document), during, 1 + round % 4).await);
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
    println!("{protocol:?}: of {count} clients, left during prefill, transfer, streaming: {left:?}");
    assert!(left.iter().all(|left| *left >= count / 5), "a phase is hardly hit: {left:?} of {count}");
    tokio::time::sleep(SETTLED).await;
    if protocol != PdProtocol::Sglang {
        let envoy = &split.stack.envoy;
        let freed = envoy.stat("kv_router.handoff.freed").await;
        let prefills = envoy.stat("kv_router.handoff.calls").await;
        let lost = prefills - split.pulled().await;
        println!("{protocol:?}: {freed} of {prefills} prefills freed for clients that left, {lost} left to the engine");
        assert!(freed > left[0] / 2 && lost * CLIENTS_PER_LOSS <= count, "{freed} {lost}");
        let told = envoy.stat("kv_router.handoff.free_failed").await;
        assert!(told <= lost, "{told} of {lost}");
    }
    wait::until("no held blocks", HOLD + SETTLED, async || (split.held_blocks() == 0).then_some(())).await;
    expect_no_bookings(&split).await;
    // And everything still works.
    split.stack.chat(&prompt::question("mock", 1_000_000, 200)).await.expect_ok();
    assert_eq!(split.stack.envoy.stat("kv_router.unrouted.internal").await, 0);
}

/// As many as `ABORTS` says; the default is what every test run can afford.
fn count() -> u64 {
    std::env::var("ABORTS").map_or(60, |text| text.parse().expect("ABORTS is a number"))
}

#[tokio::test]
async fn clients_that_leave_a_waiting_prefill_leave_nothing_behind() {
    abort(PdProtocol::Nixl, count()).await;
}

#[tokio::test]
async fn clients_that_leave_a_context_phase_leave_nothing_behind() {
    abort(PdProtocol::Trtllm, count().min(60)).await;
}

#[tokio::test]
async fn clients_that_leave_two_calls_at_once_leave_nothing_behind() {
    abort(PdProtocol::Sglang, count()).await;
}
