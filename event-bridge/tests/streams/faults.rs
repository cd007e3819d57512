//! The simulated engine's publisher with each of its faults, over real sockets: the index ends as what the engine holds, or the
//! state says that it does not; and at no step between is it called exact and is not.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use event_bridge::ingest::{Action, Ingest, IngestConfig, Parity, Reason, SourceReport, SourceSpec};
use event_bridge::stream::{StreamEvent, StreamHandle, spawn};
use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};
use kv_routing::target::Slot;
use kv_routing::wire::SourceState;
use mock_engine::events::{BlockStored, EventFaults, KvEvent, Publisher, PublisherConfig};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::spec;

const SLOT: Slot = Slot(3);
const BLOCK: u32 = 8;
const ANY: &str = "tcp://127.0.0.1:0";

struct World {
    publisher: Publisher,
    stream: StreamHandle,
    events: mpsc::Receiver<(Slot, StreamEvent)>,
    ingest: Ingest,
    /// Blocks held, by the engine's names and the index's.
    held: Vec<(u64, u64)>,
    /// Prompts so far.
    prompts: u32,
    life: u64,
    next_seq: u64,
    /// What each life held after each batch.
    truths: HashMap<(u64, u64), BTreeSet<u64>>,
    looks: u32,
}

impl World {
    async fn new() -> Self {
        let config = PublisherConfig {
            endpoint: ANY.into(),
            replay_endpoint: Some(ANY.into()),
            topic: "kv".into(),
            buffer_steps: 1000,
            rank: 0,
        };
        let publisher = Publisher::start(config).await.unwrap();
        let (tx, events) = mpsc::channel(16);
        let mut spec = spec(publisher.endpoint());
        spec.replay_endpoint = publisher.replay_endpoint().map(str::to_owned);
        spec.limits.replay_silence = Duration::from_millis(200);
        let mut ingest = Ingest::new(IngestConfig::default());
        ingest.add_target(SLOT, SourceSpec { replay: true, rank: Some(0), ..SourceSpec::default() });
        Self {
            publisher,
            stream: spawn(SLOT, spec, tx),
            events,
            ingest,
            held: Vec::new(),
            prompts: 0,
            life: 1,
            next_seq: 0,
            truths: HashMap::new(),
            looks: 0,
        }
    }

    /// Publishes batches: a new prompt each, and now and then an eviction.
    fn work(&mut self, batches: u32) {
        for _ in 0..batches {
            self.prompts += 1;
            let tokens = vec![self.prompts; BLOCK as usize];
            let ids: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
            let name = chain(&ids, BlockSize::new(BLOCK).unwrap(), HashSeed::default())[0].0;
            let hash = self.life << 32 | u64::from(self.prompts);
            let mut events = vec![KvEvent::Stored(BlockStored {
                block_hashes: vec![hash],
                parent_block_hash: None,
                token_ids: tokens,
                block_size: BLOCK,
                lora_id: None,
                lora_name: None,
                extra_keys: vec![None],
            })];
            self.held.push((hash, name));
            if self.prompts.is_multiple_of(3) {
                let (hash, _) = self.held.remove(self.held.len() / 2);
                events.push(KvEvent::Removed { hash });
            }
            self.publish(events);
        }
    }

    fn publish(&mut self, events: Vec<KvEvent>) {
        self.truths.insert((self.life, self.next_seq), self.truth());
        self.next_seq += 1;
        self.publisher.publish(events);
    }

    fn clear(&mut self) {
        self.held.clear();
        self.publish(vec![KvEvent::AllCleared]);
    }

    fn restart(&mut self) {
        self.publisher.restart();
        self.held.clear();
        (self.life, self.next_seq) = (self.life + 1, 0);
    }

    fn truth(&self) -> BTreeSet<u64> {
        self.held.iter().map(|(_, name)| *name).collect()
    }

    fn indexed(&self) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        self.ingest.index().for_each_holder(|_, _, block, _| {
            all.insert(block.0);
        });
        all
    }

    fn report(&self) -> SourceReport {
        self.ingest.report(SLOT).unwrap()
    }

    /// Follows the stream until `done`, for ten seconds at most.
    async fn follow(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", self.report());
            let event = timeout(Duration::from_millis(50), self.events.recv()).await;
            let actions = match event {
                Ok(event) => self.ingest.handle(SLOT, event.unwrap().1, Instant::now()),
                Err(_) => self.ingest.tick(Instant::now()).into_iter().map(|(_, action)| action).collect(),
            };
            for Action::Replay { id, from } in actions {
                self.stream.replay(id, from);
            }
            // Another process has to show that it agrees, which is not the matter here.
            self.ingest.set_parity(SLOT, Parity::Shown);
            self.look(what);
        }
    }

    fn look(&mut self, what: &str) {
        let report = self.report();
        if report.state == SourceState::Exact {
            self.looks += 1;
            let (indexed, seq) = (self.indexed(), report.last_seq);
            let agrees = |life: u64| seq.is_some_and(|seq| self.truths.get(&(life, seq)) == Some(&indexed));
            let agrees = (1..=self.life).any(agrees) || (seq.is_none() && indexed.is_empty());
            assert!(agrees, "{what}: EXACT and wrong\n{report:?}");
        }
    }

    /// Whether everything published is in the index, and known to be.
    fn is_exact(&self) -> bool {
        self.report().state == SourceState::Exact && self.indexed() == self.truth()
    }
}

#[tokio::test]
async fn each_fault_of_the_simulated_engine_ends_in_the_truth_or_in_a_doubt() {
    let mut world = World::new().await;
    world.work(5);
    world.follow("begin", |world| world.stream.stats().connects > 0).await;
    sleep(Duration::from_millis(200)).await;
    world.work(5);
    world.follow("begin", World::is_exact).await;
    let none = EventFaults::default();
    let faults = [
        ("drop", EventFaults { drop_next: 3, ..none.clone() }),
        ("duplicate", EventFaults { duplicate_next: 3, ..none.clone() }),
        ("reorder", EventFaults { reorder_next: 2, ..none.clone() }),
        ("truncate", EventFaults { corrupt_next: 1, ..none.clone() }),
        ("no end marker", EventFaults { drop_next: 2, replay_without_end: true, ..none.clone() }),
        ("deaf for a while", EventFaults { drop_next: 2, replay_silent: true, ..none.clone() }),
    ];
    for (what, fault) in faults {
        let lasting = fault.replay_silent || fault.replay_without_end;
        world.publisher.set_faults(fault);
        world.work(8);
        if lasting {
            // The replay is asked for while it does not work, and again when it does.
            world.follow(what, |world| world.report().reason == Reason::Checking).await;
            world.publisher.set_faults(none.clone());
        }
        world.work(1);
        world.follow(what, World::is_exact).await;
    }
    world.restart();
    world.work(4);
    world.follow("restart", World::is_exact).await;
    assert!(world.report().restarts > 0);
    // A batch that nobody has is a loss, until the cache is empty.
    world.publisher.set_faults(EventFaults { lose_next: 1, ..none });
    world.work(4);
    world.follow("lose", |world| world.report().reason == Reason::BatchesLost).await;
    assert!(world.report().losses > 0 && world.indexed().is_subset(&world.truth()));
    world.clear();
    world.work(2);
    world.follow("clear", World::is_exact).await;
    assert!(world.looks > 20);
}
