//! Events of an engine become pages that a filter finds its prompts in.

use std::time::{Duration, Instant};

use event_bridge::bridge::Bridge;
use event_bridge::config::Config;
use event_bridge::ingest::{Ingest, IngestConfig, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::target::Slot;
use kv_routing::wire::SourceState;
use serde_json::{Value, json};

use crate::envoy::FakeEnvoy;
use crate::fake::{Fake, Replies};
use crate::support::{Scratch, one_envoy, until};
use crate::worker::FakeWorker;

/// Requests before the recorded engine was started anew.
const FIRST_LIFE: usize = 33;
/// Batches the engine has published before anyone listens.
const BEFORE: usize = 10;

/// A request to a real engine: its prompt's chain, and the batch of events it led to.
struct Recorded {
    chain: Vec<SequenceHash>,
    payload: Vec<u8>,
}

/// Block size of the recording.
fn block_size() -> BlockSize {
    BlockSize::new(32).unwrap()
}

fn recording() -> Vec<Recorded> {
    let lines = include_str!("../../../tests/data/vllm-real-frames.jsonl").lines().take(FIRST_LIFE);
    let read = |line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let tokens: Vec<TokenId> = record["prompt_token_ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| TokenId(id.as_u64().unwrap() as u32))
            .collect();
        let hex = record["payload_hex"].as_str().unwrap();
        let payload = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let salted = record["request"].get("cache_salt").is_some();
        let chain = if salted { Vec::new() } else { chain(&tokens, block_size(), HashSeed::default()) };
        Recorded { chain, payload }
    };
    lines.map(read).collect()
}

fn config(scratch: &Scratch, worker: &FakeWorker, engine: &Fake) -> Config {
    let events = json!({"endpoint": engine.live, "replay": engine.replay, "topic": "kv-events"});
    let config = json!({
        "envoys": one_envoy(),
        "admin": {"listen": "127.0.0.1:0"},
        "pools": [{
            "name": "pool",
            "models": ["m"],
            "workers": [{"address": worker.address(), "events": events}],
            "probe": {"interval_ms": 100},
        }],
    });
    Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()
}

/// Blocks of `chain` that a filter finds.
fn found(envoy: &FakeEnvoy, chain: &[SequenceHash]) -> usize {
    envoy.lookup(chain).0.0.first().map_or(0, |(_, overlap)| overlap.total() as usize)
}

fn source(envoy: &FakeEnvoy) -> Option<SourceState> {
    Some(envoy.table()?.targets.first()?.source)
}

struct World {
    scratch: Scratch,
    envoy: FakeEnvoy,
    worker: FakeWorker,
    engine: Fake,
    records: Vec<Recorded>,
    _listening: crate::envoy::Listening,
}

/// An engine that has published some of the recording already.
async fn world() -> World {
    let (scratch, envoy, worker) = (Scratch::new(), FakeEnvoy::default(), FakeWorker::start().await);
    let listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    let mut engine = Fake::bind("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", Replies::WithTopic).await;
    let records = recording();
    records.iter().take(BEFORE).for_each(|record| engine.remember(&record.payload));
    World { scratch, envoy, worker, engine, records, _listening: listening }
}

/// Ingest as it is without a bridge around it, which has tests of its own.
struct Oracle {
    ingest: Ingest,
    next: u64,
}

impl Oracle {
    fn new() -> Self {
        let mut ingest = Ingest::new(IngestConfig::default());
        ingest.add_target(Slot(0), SourceSpec::default());
        ingest.handle(Slot(0), StreamEvent::Connected, Instant::now());
        Self { ingest, next: 0 }
    }

    fn feed(&mut self, payload: &[u8]) {
        let (seq, payload, received) = (self.next, payload.to_vec().into(), Instant::now());
        self.next += 1;
        self.ingest.handle(Slot(0), StreamEvent::Live { seq, payload, received }, received);
    }

    fn found(&self, chain: &[SequenceHash]) -> usize {
        self.ingest.index().overlaps(chain).get(Slot(0)).total() as usize
    }
}

#[tokio::test]
async fn recorded_prompts_are_found_in_what_envoy_holds() {
    let (mut world, mut oracle) = (world().await, Oracle::new());
    let bridge = Bridge::start(config(&world.scratch, &world.worker, &world.engine)).await.unwrap();
    let mut most = 0;
    for (at, record) in world.records.iter().enumerate() {
        oracle.feed(&record.payload);
        if at >= BEFORE {
            world.engine.publish(&record.payload);
        }
        if at + 1 < BEFORE {
            continue;
        }
        for known in &world.records {
            let expected = oracle.found(&known.chain);
            most = most.max(expected);
            until(&format!("prompts are found after batch {at}"), async || {
                (found(&world.envoy, &known.chain) == expected).then_some(())
            })
            .await;
        }
    }
    assert!(most > 200, "the longest prompt has hundreds of blocks");
    let manifest = world.envoy.manifest().unwrap();
    assert_eq!(manifest.pools[0].block_size, Some(32), "learned from events");
    // Usable in full. That nothing was missed and that the prompts are those of clients is confirmed later.
    let state = source(&world.envoy).unwrap();
    assert!(matches!(state, SourceState::Exact | SourceState::Unverified | SourceState::Warm), "{state:?}");
    bridge.stop().await;
}

#[tokio::test]
async fn a_restarted_bridge_replaces_its_predecessor_within_two_seconds() {
    let world = world().await;
    let longest = world.records.iter().take(BEFORE).max_by_key(|record| record.chain.len()).unwrap();
    let whole = longest.chain.len();
    let first = Bridge::start(config(&world.scratch, &world.worker, &world.engine)).await.unwrap();
    until("the prompt is found", async || (found(&world.envoy, &longest.chain) == whole).then_some(())).await;
    first.stop().await;
    let start = Instant::now();
    let second = Bridge::start(config(&world.scratch, &world.worker, &world.engine)).await.unwrap();
    until("the second bridge serves Envoy", async || {
        // What the first one left is used until the second one's pages overwrite it.
        let rejected = world.envoy.lookup(&longest.chain).1;
        assert!(rejected > 0 || found(&world.envoy, &longest.chain) == whole, "after {:?}", start.elapsed());
        (world.envoy.manifest().unwrap().header.epoch == second.epoch()).then_some(())
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!((found(&world.envoy, &longest.chain), world.envoy.lookup(&longest.chain).1), (whole, 0));
    second.stop().await;
}

#[tokio::test]
async fn an_engine_that_is_gone_is_stale_and_keeps_its_blocks_for_a_while() {
    let world = world().await;
    let longest = world.records.iter().take(BEFORE).max_by_key(|record| record.chain.len()).unwrap();
    let bridge = Bridge::start(config(&world.scratch, &world.worker, &world.engine)).await.unwrap();
    let whole = longest.chain.len();
    until("the prompt is found", async || (found(&world.envoy, &longest.chain) == whole).then_some(())).await;
    drop(world.engine);
    until("it is stale", async || (source(&world.envoy) == Some(SourceState::Stale)).then_some(())).await;
    assert_eq!(found(&world.envoy, &longest.chain), whole);
    bridge.stop().await;
}

/// Time from publishing an event to a filter finding its blocks. Run it on a quiet machine:
/// `cargo test --release -p event-bridge --test bridge -- --ignored --nocapture event_to_routable`
#[tokio::test]
#[ignore = "a measurement, meaningless on a busy machine"]
async fn event_to_routable() {
    const EVENTS: u32 = 500;
    let mut world = world().await;
    let bridge = Bridge::start(config(&world.scratch, &world.worker, &world.engine)).await.unwrap();
    let longest = world.records.iter().take(BEFORE).map(|record| record.chain.clone()).max_by_key(Vec::len).unwrap();
    until("it follows", async || (found(&world.envoy, &longest) == longest.len()).then_some(())).await;
    let mut times = Vec::new();
    for event in 0..EVENTS {
        let (payload, hash) = one_block(event);
        let start = Instant::now();
        world.engine.publish(&payload);
        while found(&world.envoy, &[hash]) == 0 {
            tokio::time::sleep(Duration::from_micros(200)).await;
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        times.push(start.elapsed());
        // Not in step with the pace of pushes.
        tokio::time::sleep(Duration::from_micros(u64::from(event % 13) * 700)).await;
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("event to routable over {EVENTS} events: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
    assert!(at(0.99) < Duration::from_millis(20));
    bridge.stop().await;
}

/// A batch that stores one block of 32 tokens nobody else has, and that block's hash.
fn one_block(number: u32) -> (Vec<u8>, SequenceHash) {
    let tokens: Vec<u32> = (0..32).map(|at| 100_000 + number * 32 + at).collect();
    let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    let int = |value: u64| [&[0xcf][..], &value.to_be_bytes()].concat();
    // ["BlockStored", [hash], nil, [tokens], 32, nil]
    let ids: Vec<u8> = tokens.iter().flat_map(|token| int(u64::from(*token))).collect();
    let event = [
        &[0x96][..],
        &text("BlockStored"),
        &[0x91],
        &int(0xabcd_0000_0000 + u64::from(number)),
        &[0xc0, 0xdc, 0, 32],
        &ids,
        &[32, 0xc0],
    ]
    .concat();
    let batch = [&[0x92, 0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x91][..], &event].concat();
    let tokens: Vec<TokenId> = tokens.into_iter().map(TokenId).collect();
    (batch, chain(&tokens, block_size(), HashSeed::default())[0])
}
