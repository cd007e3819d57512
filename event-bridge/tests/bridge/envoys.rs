//! Envoys restart, refuse, vanish, and are served by others.

use std::time::Duration;

use event_bridge::bridge::Bridge;
use event_bridge::clock::unix_millis;
use event_bridge::config::Config;
use kv_routing::target::TargetId;
use kv_routing::wire::{
    Booking, Decision, Epoch, Generation, LoadRow, LoadRowEntry, PUSH_PART_BYTES, PoolId, UnixMillis, keys,
};
use serde_json::json;

use crate::envoy::{Behaviour, FakeEnvoy, foreign_manifest};
use crate::support::{Scratch, admin, config, metrics, one_envoy, until};
use crate::worker::FakeWorker;

async fn state(bridge: &Bridge, at: usize) -> String {
    admin(bridge, "/envoys").await.unwrap()["envoys"][at]["state"].as_str().unwrap().to_owned()
}

async fn ready(bridge: &Bridge) -> Option<()> {
    admin(bridge, "/readyz").await.ok().map(drop)
}

#[tokio::test]
async fn an_envoy_that_lost_its_state_is_whole_again_within_a_second() {
    let (scratch, worker, envoy) = (Scratch::new(), FakeWorker::start().await, FakeEnvoy::default());
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("ready", async || ready(&bridge).await).await;
    assert!(envoy.is_whole());
    let before = envoy.manifest().unwrap().header;
    assert_eq!(before.epoch, bridge.epoch());

    envoy.wipe();
    let (_, took) = until("it is whole", async || envoy.is_whole().then_some(())).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(envoy.manifest().unwrap().header.generation > before.generation);
    assert_eq!(envoy.targets(), [worker.address()]);
    bridge.stop().await;
}

#[tokio::test]
async fn an_envoy_that_restarts_is_whole_again_within_a_second() {
    let (scratch, worker, envoy) = (Scratch::new(), FakeWorker::start().await, FakeEnvoy::default());
    let listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("ready", async || ready(&bridge).await).await;

    drop(listening);
    // A restarted process has a listener of its own and none of the former's connections.
    let reborn = FakeEnvoy::default();
    envoy.behave(|behaviour| behaviour.failures = u32::MAX);
    until("it is gone", async || (state(&bridge, 0).await == "unreachable").then_some(())).await;
    assert!(ready(&bridge).await.is_none(), "no Envoy can be reached");
    let _listening = reborn.listen_unix(&scratch.path("ingest.sock"));
    let (_, took) = until("it is whole", async || reborn.is_whole().then_some(())).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    until("ready", async || ready(&bridge).await).await;
    bridge.stop().await;
}

#[tokio::test]
async fn the_manifest_comes_last_and_the_heartbeat_goes_on() {
    let (scratch, worker, envoy) = (Scratch::new(), FakeWorker::start().await, FakeEnvoy::default());
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("ready", async || ready(&bridge).await).await;
    let first = envoy.manifest().unwrap().header.heartbeat;
    until("three heartbeats", async || (envoy.manifest().unwrap().header.heartbeat.0 >= first.0 + 1000).then_some(()))
        .await;
    let pushes = envoy.pushes();
    let fill = pushes.iter().position(|keys| keys.contains(&keys::MANIFEST.to_owned())).unwrap();
    assert!(pushes[..fill].iter().flatten().any(|key| key.starts_with("kv/p/0/")), "pages before the manifest");
    assert!(pushes[fill..].iter().all(|keys| keys.last().is_some_and(|key| key == keys::MANIFEST)));
    assert!(envoy.largest_push() < 2 * PUSH_PART_BYTES);
    bridge.stop().await;
}

#[tokio::test]
async fn one_envoy_that_is_down_does_not_hold_up_the_other() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    let (one, other) = (FakeEnvoy::default(), FakeEnvoy::default());
    let _one = one.listen_unix(&scratch.path("one.sock"));
    scratch.workers(&[&worker]);
    let envoys = json!([{"endpoint": "unix:one.sock"}, {"endpoint": "unix:other.sock"}]);
    let bridge = Bridge::start(config(&scratch, envoys)).await.unwrap();
    until("ready", async || ready(&bridge).await).await;
    assert!(one.is_whole());
    until("the other is known to be down", async || (state(&bridge, 1).await == "unreachable").then_some(())).await;
    let error = admin(&bridge, "/envoys").await.unwrap()["envoys"][1]["error"].to_string();
    assert!(error.contains("ingest listener"), "{error}");
    let _other = other.listen_unix(&scratch.path("other.sock"));
    until("the other is whole", async || other.is_whole().then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn a_wrong_secret_is_named_and_a_rotated_one_is_taken() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    let envoy = FakeEnvoy::new(Behaviour { secret: Some("right".to_owned()), ..Behaviour::default() });
    let (_listening, port) = envoy.listen_tcp().await;
    scratch.workers(&[&worker]);
    scratch.replace("secret", "wrong\n");
    let envoys = json!([{"endpoint": format!("http://127.0.0.1:{port}"), "secret_file": "secret"}]);
    let bridge = Bridge::start(config(&scratch, envoys)).await.unwrap();
    let refused = async || {
        let envoys = admin(&bridge, "/envoys").await.unwrap();
        envoys["envoys"][0]["error"].as_str().map(str::to_owned)
    };
    let (error, _) = until("it is refused", refused).await;
    assert!(error.contains("401") && error.contains("secret_file"), "{error}");
    assert!(!error.contains("wrong\n"), "the secret itself is not shown");
    scratch.replace("secret", "right\n");
    until("it is whole", async || envoy.is_whole().then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn failing_pushes_are_repeated_until_they_succeed() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    let envoy = FakeEnvoy::new(Behaviour { failures: 5, ..Behaviour::default() });
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("it is whole", async || envoy.is_whole().then_some(())).await;
    let text = metrics(&bridge).await;
    assert!(text.contains("kv_bridge_push_failures_total{envoy=\"envoy\",kind=\"refused\"} 5"), "{text}");
    bridge.stop().await;
}

/// Two pools whose target tables do not fit into one push, so that a snapshot has several parts.
fn two_large_pools(scratch: &Scratch) -> Config {
    let label = "x".repeat(700 << 10);
    let pool = |name: &str, port: u16| {
        let worker = json!({"address": format!("127.0.0.1:{port}"), "labels": {"large": label}});
        json!({"name": name, "models": [name], "workers": [worker], "events": {"enabled": false}})
    };
    let config = json!({
        "envoys": one_envoy(),
        "admin": {"listen": "127.0.0.1:0"},
        "pools": [pool("one", 1), pool("two", 2)],
    });
    Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()
}

#[tokio::test]
async fn what_a_predecessor_left_stays_until_all_of_the_new_state_is_there() {
    let (scratch, envoy) = (Scratch::new(), FakeEnvoy::default());
    // It stopped a moment ago, and its heartbeat is still fresh.
    let predecessor = Epoch(1);
    envoy.put(keys::MANIFEST, foreign_manifest(predecessor, unix_millis()));
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    let bridge = Bridge::start(two_large_pools(&scratch)).await.unwrap();
    until("it is whole", async || (envoy.manifest()?.header.epoch == bridge.epoch()).then_some(())).await;
    assert!(envoy.is_whole());
    let pushes = envoy.pushes();
    let manifest = pushes.iter().position(|keys| keys.contains(&keys::MANIFEST.to_owned())).unwrap();
    assert!(manifest >= 1, "several parts came before the manifest: {:?}", &pushes[..=manifest]);
    bridge.stop().await;
}

#[tokio::test]
async fn a_later_epoch_of_a_bridge_that_is_gone_is_replaced() {
    let (scratch, envoy) = (Scratch::new(), FakeEnvoy::default());
    // The clock was set back since.
    envoy.put(keys::MANIFEST, foreign_manifest(Epoch(u64::MAX), UnixMillis(1)));
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    let bridge = Bridge::start(two_large_pools(&scratch)).await.unwrap();
    until("it is whole", async || (envoy.manifest()?.header.epoch == bridge.epoch()).then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn a_younger_bridge_is_left_alone_until_it_is_gone() {
    let (scratch, worker) = (Scratch::new(), FakeWorker::start().await);
    let limit = Duration::from_millis(900);
    let envoy = FakeEnvoy::new(Behaviour { heartbeat_limit: Some(limit), ..Behaviour::default() });
    let foreign = Epoch(u64::MAX);
    envoy.put(keys::MANIFEST, foreign_manifest(foreign, unix_millis()));
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("it is superseded", async || {
        envoy.put(keys::MANIFEST, foreign_manifest(foreign, unix_millis()));
        (state(&bridge, 0).await == "superseded").then_some(())
    })
    .await;
    assert!(envoy.pushes().is_empty(), "nothing was written");
    until("it takes over when the other one is silent", async || {
        (envoy.is_whole() && envoy.manifest()?.header.epoch == bridge.epoch()).then_some(())
    })
    .await;
    until("in sync", async || (state(&bridge, 0).await == "in_sync").then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn load_rows_and_decisions_come_back_as_metrics() {
    let (scratch, worker, envoy) = (Scratch::new(), FakeWorker::start().await, FakeEnvoy::default());
    let target = TargetId::of(&worker.address(), None);
    let booking = Booking { requests: 3, prefill_tokens: 40, decode_blocks: 5, failures: 1, peak_requests: 3 };
    let row = LoadRow {
        owner: 1,
        written: unix_millis(),
        generation: Generation(1),
        policy_version: 0,
        entries: vec![LoadRowEntry { target, booking }],
        recent: Vec::new(),
    };
    let decision = Decision {
        at: unix_millis(),
        pool: PoolId(0),
        target,
        answered: true,
        prompt_tokens: 100,
        predicted_blocks: 4,
        block_size: 16,
        blocks: 6,
        certain_blocks: 0,
        marks: Vec::new(),
        head: Vec::new(),
        seed: 0,
        adapter: false,
        shadow: None,
    };
    // The second names a pool that does not exist.
    let decisions = vec![decision.clone(), Decision { pool: PoolId(9), ..decision }];
    envoy
        .behave(|behaviour| (behaviour.load_rows, behaviour.decisions) = (vec![(0, row.clone()), (1, row)], decisions));
    let _listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config(&scratch, one_envoy())).await.unwrap();
    until("ready", async || ready(&bridge).await).await;
    until("the decision is counted", async || {
        metrics(&bridge).await.contains("kv_bridge_decision_prompt_tokens_total{pool=\"pool\"} 100").then_some(())
    })
    .await;
    let text = metrics(&bridge).await;
    assert!(text.contains("kv_bridge_decisions_total{pool=\"pool\"} 1"), "{text}");
    assert!(text.contains(&format!("kv_bridge_booked_requests{{envoy=\"envoy\",target=\"{target}\"}} 6.0")), "{text}");
    assert!(text.contains("kv_bridge_envoy_state{envoy=\"envoy\",state=\"in_sync\"} 1.0"), "{text}");
    bridge.stop().await;
}
