//! The bridge ends in order.

use std::time::{Duration, Instant};

use event_bridge::bridge::Bridge;

use crate::envoy::FakeEnvoy;
use crate::support::{Scratch, admin, config, endpoints, one_envoy, until};
use crate::worker::FakeWorker;

#[tokio::test]
async fn everything_ends_and_what_envoy_holds_stays() {
    let (scratch, worker, envoy) = (Scratch::new(), FakeWorker::start().await, FakeEnvoy::default());
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("ready", async || admin(&bridge, "/readyz").await.ok()).await;
    let address = bridge.admin_address();

    let start = Instant::now();
    bridge.stop().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the admin server is closed");
    assert!(envoy.is_whole());
    assert_eq!(endpoints(&scratch.path("eds.json")), [(worker.address(), false)]);
    let (probes, pushes) = (worker.probes(), envoy.pushes().len());
    // Longer than a probe interval and a heartbeat.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((worker.probes(), envoy.pushes().len()), (probes, pushes), "nothing runs on");
}

#[tokio::test]
async fn an_envoy_that_cannot_be_reached_does_not_hold_up_the_end() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("it has tried", async || {
        let envoys = admin(&bridge, "/envoys").await.unwrap();
        envoys["envoys"][0]["error"].is_string().then_some(())
    })
    .await;
    let start = Instant::now();
    bridge.stop().await;
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn two_bridges_cannot_share_an_admin_address() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, serde_json::json!([]))).await.unwrap();
    let mut second = config(&scratch, serde_json::json!([]));
    second.admin.listen = bridge.admin_address();
    let error = Bridge::start(second).await.unwrap_err().to_string();
    assert!(error.contains("admin.listen"), "{error}");
    until("a bridge without Envoys is ready", async || admin(&bridge, "/readyz").await.ok()).await;
    bridge.stop().await;
}
