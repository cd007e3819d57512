//! Clients that leave, at any moment of a hand-over.

use std::time::Duration;

use e2e::client::{Client, json};
use e2e::disagg::Split;
use e2e::prompt;
use e2e::wait;
use mock_engine::{EngineConfig, PdProtocol, Speed, TransferConfig};

use super::{config, expect_no_bookings};

/// Blocks that nobody fetched are held this long.
const HOLD: Duration = Duration::from_millis(1500);

/// A prompt takes about 20 ms to prefill, and an answer about as long.
fn measured(protocol: PdProtocol) -> EngineConfig {
    let speed = Speed { prefill_tokens_per_s: 20_000.0, decode_ms_per_token: 2.0, speedup: 1.0 };
    let transfer = TransferConfig {
        hold_timeout: HOLD,
        rendezvous_timeout: HOLD,
        tokens_per_s: 40_000.0,
        ..config(protocol).transfer
    };
    EngineConfig { speed, transfer, ..config(protocol) }
}

/// Sends `count` requests and breaks each off after another while, so that every phase is hit.
async fn abort(protocol: PdProtocol, count: u64) {
    let split = Split::start(&measured(protocol), 2, 2).await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    let mut running = tokio::task::JoinSet::new();
    let mut aborted = 0;
    for serial in 0..count {
        let mut document = prompt::question("mock", serial, 200);
        document["max_tokens"] = 10.into();
        document["stream"] = serial.is_multiple_of(2).into();
        let url = url.clone();
        running.spawn(async move {
            // A connection of its own, which breaks with the request.
            let client = Client::new();
            let sent = client.send(json(&url, &document));
            let patience = Duration::from_millis(1 + serial * 7 % 60);
            tokio::time::timeout(patience, sent).await.is_err()
        });
        if running.len() >= 8 {
            let left = running.join_next().await.expect("some run");
            aborted += usize::from(left.expect("no panic"));
        }
    }
    while let Some(left) = running.join_next().await {
        aborted += usize::from(left.expect("no panic"));
    }
    assert!(aborted > 0, "nobody left: nothing is shown");
    // Envoy lets prefill calls go on whose client has left: what was asked for is computed, held, and given up.
    for engine in &split.prefill {
        wait::until("idle prefill engines", Duration::from_secs(60), async || {
            let open =
                engine.metric("vllm:num_requests_running").await + engine.metric("vllm:num_requests_waiting").await;
            (open == 0).then_some(())
        })
        .await;
    }
    wait::until("no held blocks", HOLD + Duration::from_secs(1), async || (split.held_blocks() == 0).then_some(()))
        .await;
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
async fn clients_that_leave_two_calls_at_once_leave_nothing_behind() {
    abort(PdProtocol::Sglang, count()).await;
}
