//! Workers come, go, fall ill and are described wrongly.

use std::time::Duration;

use event_bridge::bridge::Bridge;
use kv_routing::wire::Health;

use crate::envoy::{Behaviour, FakeEnvoy};
use crate::support::{Scratch, admin, call, config, endpoints, one_envoy, until};
use crate::worker::FakeWorker;

struct World {
    scratch: Scratch,
    envoy: FakeEnvoy,
    bridge: Bridge,
    _listening: crate::envoy::Listening,
}

async fn world(workers: &[&FakeWorker]) -> World {
    let scratch = Scratch::new();
    let envoy = FakeEnvoy::new(Behaviour { eds_file: Some(scratch.path("eds.json")), ..Behaviour::default() });
    let listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(workers);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    let count = workers.len();
    until("all workers are healthy targets", async || (healthy(&envoy).len() == count).then_some(())).await;
    World { scratch, envoy, bridge, _listening: listening }
}

fn healthy(envoy: &FakeEnvoy) -> Vec<String> {
    let targets = envoy.table().map(|table| table.targets).unwrap_or_default();
    targets.into_iter().filter(|target| target.health == Health::Healthy).map(|target| target.endpoint).collect()
}

#[tokio::test]
async fn an_added_worker_is_a_healthy_target_within_a_second() {
    let (a, b) = (FakeWorker::start().await, FakeWorker::start().await);
    let world = world(&[&a]).await;
    world.scratch.workers(&[&a, &b]);
    let (_, took) =
        until("the new worker is chosen", async || healthy(&world.envoy).contains(&b.address()).then_some(())).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(world.envoy.strays().is_empty(), "{:?}", world.envoy.strays());
    world.bridge.stop().await;
}

#[tokio::test]
async fn a_removed_worker_leaves_the_table_before_the_endpoint_file() {
    let (a, b) = (FakeWorker::start().await, FakeWorker::start().await);
    let world = world(&[&a, &b]).await;
    world.scratch.workers(&[&a]);
    let file = world.scratch.path("eds.json");
    let listed = |worker: &FakeWorker| endpoints(&file).into_iter().find(|(address, _)| *address == worker.address());
    until("it is no target", async || (!world.envoy.targets().contains(&b.address())).then_some(())).await;
    assert_eq!(listed(&b), Some((b.address(), true)), "requests under way finish on a draining endpoint");
    until("it is no endpoint", async || listed(&b).is_none().then_some(())).await;
    assert_eq!(world.envoy.targets(), [a.address()]);
    assert_eq!(endpoints(&file), [(a.address(), false)]);
    assert!(world.envoy.strays().is_empty());
    let probes = b.probes();
    let before = a.probes();
    until("the other one is probed on", async || (a.probes() > before + 3).then_some(())).await;
    assert_eq!(b.probes(), probes, "a worker that left is not probed");
    world.bridge.stop().await;
}

#[tokio::test]
async fn workers_that_come_and_go_all_the_time_never_break_the_order() {
    let workers = [FakeWorker::start().await, FakeWorker::start().await, FakeWorker::start().await];
    let world = world(&[&workers[0]]).await;
    for round in 0..12 {
        let some: Vec<&FakeWorker> = (0..3).filter(|at| (round >> at) & 1 == 1).map(|at| &workers[at]).collect();
        world.scratch.workers(&some);
        let expected: Vec<String> = some.iter().map(|worker| worker.address()).collect();
        until("the table follows", async || {
            let targets = world.envoy.targets();
            (targets.len() == expected.len() && expected.iter().all(|one| targets.contains(one))).then_some(())
        })
        .await;
    }
    assert!(world.envoy.strays().is_empty(), "{:?}", world.envoy.strays());
    world.bridge.stop().await;
}

#[tokio::test]
async fn a_bad_workers_file_changes_nothing_and_says_why() {
    let a = FakeWorker::start().await;
    let world = world(&[&a]).await;
    world.scratch.replace("workers.yaml", "workers: [{address: '10.0.0.1'}]");
    let reason = async || {
        let workers = admin(&world.bridge, "/workers").await.unwrap();
        workers["pools"][0]["workers_error"].as_str().map(str::to_owned)
    };
    let (error, _) = until("the refusal is shown", reason).await;
    assert!(error.contains("workers[0].address") && error.contains("workers.yaml"), "{error}");
    assert_eq!(world.envoy.targets(), [a.address()]);
    let text = crate::support::metrics(&world.bridge).await;
    assert!(text.contains("kv_bridge_workers_file_refused{pool=\"pool\"} 1"), "{text}");
    world.scratch.workers(&[&a]);
    until("a good one is taken", async || reason().await.is_none().then_some(())).await;
    world.bridge.stop().await;
}

/// What a predecessor left in Envoy is better than nothing.
#[tokio::test]
async fn a_bridge_that_never_read_a_good_workers_file_erases_nothing() {
    let a = FakeWorker::start().await;
    let World { scratch, envoy, bridge, _listening } = world(&[&a]).await;
    bridge.stop().await;
    scratch.replace("workers.yaml", "garbage: [");
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    let refused = async || {
        let workers = admin(&bridge, "/workers").await.unwrap();
        workers["pools"][0]["workers_error"].as_str().map(str::to_owned)
    };
    until("the refusal is shown", refused).await;
    // Long enough for several rounds of publishing.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (status, ready) = call(&bridge, "GET", "/readyz", "").await;
    assert_eq!(status, 503, "{ready}");
    assert!(ready["missing"][0].as_str().unwrap().contains("workers.yaml"), "{ready}");
    assert_eq!(envoy.targets(), [a.address()]);
    assert_eq!(endpoints(&scratch.path("eds.json")), [(a.address(), false)]);
    scratch.workers(&[&a]);
    until("it is ready", async || (call(&bridge, "GET", "/readyz", "").await.0 == 200).then_some(())).await;
    assert_eq!(envoy.targets(), [a.address()]);
    bridge.stop().await;
}

#[tokio::test]
async fn a_worker_that_dies_is_unhealthy_and_one_that_returns_is_healthy() {
    let (a, b) = (FakeWorker::start().await, FakeWorker::start().await);
    let world = world(&[&a, &b]).await;
    let socket = b.socket();
    drop(b);
    until("it is unhealthy", async || (healthy(&world.envoy) == [a.address()]).then_some(())).await;
    assert_eq!(world.envoy.targets().len(), 2, "it stays a target, so that it can come back");
    let b = FakeWorker::start_at(socket).await;
    until("it is healthy again", async || healthy(&world.envoy).contains(&b.address()).then_some(())).await;
    world.bridge.stop().await;
}

#[tokio::test]
async fn engine_load_reaches_the_target_table() {
    let a = FakeWorker::start().await;
    let world = world(&[&a]).await;
    a.run(17);
    let running = async || (world.envoy.table()?.targets[0].running == 17).then_some(());
    until("the load is in the table", running).await;
    world.bridge.stop().await;
}
