//! A bridge that is started anew goes on where the former one stopped, or forgets what it was told.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use event_bridge::bridge::Bridge;
use event_bridge::config::Config;
use event_bridge::ingest::{Ingest, IngestConfig, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::target::Slot;
use serde_json::json;

use crate::fake::{Fake, Replies};
use crate::sources::{held, recorded, worker};
use crate::support::{Scratch, until};
use crate::worker::FakeWorker;

/// States of a source whose order of events is known to be whole.
const WHOLE: [&str; 2] = ["parity_unknown", "in_order"];

async fn bridge(scratch: &Scratch, worker: &FakeWorker, engine: &Fake, warm: bool) -> Bridge {
    let mut config = json!({"admin": {"listen": "127.0.0.1:0"}, "pools": [{"name": "pool", "models": ["m"], "probe": {"interval_ms": 50},
        "workers": [{"address": worker.address(), "events": {"endpoint": engine.live, "replay": engine.replay}}]}]});
    if warm {
        config["warm_start"] = json!({"dir": "warm", "interval_ms": 100});
    }
    Bridge::start(Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()).await.unwrap()
}

/// What an engine holds that has published these lines of the recording.
fn truth(lines: impl Iterator<Item = usize>) -> BTreeSet<String> {
    let mut ingest = Ingest::new(IngestConfig::default());
    ingest.add_target(Slot(0), SourceSpec::default());
    let received = Instant::now();
    ingest.handle(Slot(0), StreamEvent::Connected, received);
    for (seq, line) in (0..).zip(lines) {
        ingest.handle(Slot(0), StreamEvent::Live { seq, payload: recorded(line).into(), received }, received);
    }
    let mut blocks = BTreeSet::new();
    ingest.index().for_each_holder(|_, _, block, _| {
        blocks.insert(block.to_string());
    });
    blocks
}

async fn blocks(bridge: &Bridge) -> BTreeSet<String> {
    held(bridge).await.remove(&None).unwrap_or_default()
}

async fn until_held(what: &str, bridge: &Bridge, expected: &BTreeSet<String>) {
    assert!(!expected.is_empty());
    until(what, async || (blocks(bridge).await == *expected).then_some(())).await;
}

/// Waits until what was replayed is known to be that of the engine that speaks, which its next batch shows.
async fn until_whole(bridge: &Bridge) {
    let reason = async || worker(bridge).await["targets"][0]["reason"].as_str().unwrap_or_default().to_owned();
    until("the source is whole", async || WHOLE.contains(&reason().await.as_str()).then_some(())).await;
}

fn warm_file(scratch: &Scratch) -> std::path::PathBuf {
    let files = std::fs::read_dir(scratch.path("warm")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "kvwarm")).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    file.clone()
}

async fn publisher() -> Fake {
    Fake::bind("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", Replies::WithTopic).await
}

/// Lines of the recording with evictions among them begin here.
const EVICTING: usize = 33;

#[tokio::test]
async fn goes_on_where_the_former_bridge_stopped() {
    let (scratch, http, mut engine) = (Scratch::new(), FakeWorker::start().await, publisher().await);
    (EVICTING..EVICTING + 8).for_each(|line| engine.remember(&recorded(line)));
    let first = bridge(&scratch, &http, &engine, true).await;
    let known = truth(EVICTING..EVICTING + 8);
    until_held("the first bridge is up to date", &first, &known).await;
    first.stop().await;

    // Only its last batch is left to be replayed.
    engine.keep_last(1);
    let cold = bridge(&scratch, &http, &engine, false).await;
    until("a bridge without that state knows less", async || {
        let blocks = blocks(&cold).await;
        (worker(&cold).await["targets"][0]["reason"] == "history_trimmed" && blocks != known).then_some(())
    })
    .await;
    cold.stop().await;

    let second = bridge(&scratch, &http, &engine, true).await;
    until_held("the second bridge knows it", &second, &known).await;
    until("it is seen to be the same engine", async || {
        (worker(&second).await["targets"][0]["reason"] == "unconfirmed").then_some(())
    })
    .await;
    // Later batches remove blocks of before, by names that only the former bridge had been told.
    (EVICTING + 8..EVICTING + 14).for_each(|line| engine.publish(&recorded(line)));
    until_held("it goes on", &second, &truth(EVICTING..EVICTING + 14)).await;
    until_whole(&second).await;
    let source = worker(&second).await["targets"][0]["source"].clone();
    assert_eq!((&source["unknown_removals"], &source["restarts"]), (&json!(0), &json!(0)));
    second.stop().await;
}

/// Another process in the place of the one whose state was saved, with `lines` published.
async fn successor(former: Fake, lines: std::ops::Range<usize>) -> Fake {
    let (live, replay) = (former.live.clone(), former.replay.clone());
    drop(former);
    until("its ports are free", async || {
        let free = |endpoint: &str| std::net::TcpListener::bind(endpoint.trim_start_matches("tcp://")).is_ok();
        (free(&live) && free(&replay)).then_some(())
    })
    .await;
    let mut engine = Fake::bind(&live, &replay, Replies::WithTopic).await;
    lines.for_each(|line| engine.remember(&recorded(line)));
    engine
}

#[tokio::test]
async fn state_of_another_process_is_dropped() {
    // The new process has published fewer, as many and more batches than the old one had.
    for published in [1, 4, 7] {
        let (scratch, http, mut engine) = (Scratch::new(), FakeWorker::start().await, publisher().await);
        (0..4).for_each(|line| engine.remember(&recorded(line)));
        let first = bridge(&scratch, &http, &engine, true).await;
        until_held("the first bridge is up to date", &first, &truth(0..4)).await;
        first.stop().await;
        let end = EVICTING + published;
        let mut engine = successor(engine, EVICTING..end).await;
        let second = bridge(&scratch, &http, &engine, true).await;
        until_held("only the new process counts", &second, &truth(EVICTING..end)).await;
        engine.publish(&recorded(end));
        until_held("it is followed", &second, &truth(EVICTING..=end)).await;
        until_whole(&second).await;
        second.stop().await;
    }
}

async fn is_followed_anew(spoil: impl FnOnce(&Path)) {
    let (scratch, http, mut engine) = (Scratch::new(), FakeWorker::start().await, publisher().await);
    (0..4).for_each(|line| engine.remember(&recorded(line)));
    let first = bridge(&scratch, &http, &engine, true).await;
    until_held("the first bridge is up to date", &first, &truth(0..4)).await;
    first.stop().await;
    spoil(&warm_file(&scratch));
    engine.keep_last(1);
    let second = bridge(&scratch, &http, &engine, true).await;
    until("it says that it does not know everything", async || {
        (worker(&second).await["targets"][0]["reason"] == "history_trimmed").then_some(())
    })
    .await;
    assert!(blocks(&second).await.is_subset(&truth(0..4)));
    assert_ne!(blocks(&second).await, truth(0..4));
    second.stop().await;
}

#[tokio::test]
async fn damaged_files_are_refused() {
    is_followed_anew(|path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(path, bytes).unwrap();
    })
    .await;
    is_followed_anew(|path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 7]).unwrap();
    })
    .await;
}

#[tokio::test]
async fn state_is_saved_while_the_bridge_runs() {
    let (scratch, http, mut engine) = (Scratch::new(), FakeWorker::start().await, publisher().await);
    engine.remember(&recorded(0));
    let bridge = bridge(&scratch, &http, &engine, true).await;
    until_held("it is up to date", &bridge, &truth(0..1)).await;
    let size = |scratch: &Scratch| {
        let files = std::fs::read_dir(scratch.path("warm")).into_iter().flatten();
        files.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).max()
    };
    let (before, _) = until("it is saved", async || size(&scratch)).await;
    engine.publish(&recorded(1));
    until("it is saved again", async || size(&scratch).filter(|after| *after > before)).await;
    bridge.stop().await;
}
