//! The simulated engine's publisher, and the truth about what it holds.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};
use mock_engine::events::{BlockStored, KvEvent, Publisher, PublisherConfig};

const BLOCK: u32 = 8;
const ANY: &str = "tcp://127.0.0.1:0";

/// An engine; a copy is the same one.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Mutex<Inner>>);

struct Inner {
    publisher: Publisher,
    /// Blocks held, by the engine's names and the index's.
    held: Vec<(u64, u64)>,
    /// Prompts so far.
    prompts: u32,
    /// Processes so far.
    life: u64,
    next_seq: u64,
    /// What each life held after each batch.
    truths: HashMap<(u64, u64), BTreeSet<u64>>,
}

impl Engine {
    pub(crate) async fn start() -> Self {
        let config = PublisherConfig {
            endpoint: ANY.into(),
            replay_endpoint: Some(ANY.into()),
            topic: "kv".into(),
            buffer_steps: 1000,
            rank: 0,
        };
        let publisher = Publisher::start(config).await.unwrap();
        let (held, truths) = (Vec::new(), HashMap::new());
        Self(Arc::new(Mutex::new(Inner { publisher, held, prompts: 0, life: 1, next_seq: 0, truths })))
    }

    pub(crate) fn live(&self) -> String {
        self.0.lock().unwrap().publisher.endpoint().to_owned()
    }

    pub(crate) fn replay(&self) -> String {
        self.0.lock().unwrap().publisher.replay_endpoint().unwrap().to_owned()
    }

    /// Publishes batches: a new prompt each, and now and then an eviction.
    pub(crate) fn work(&self, batches: usize) {
        let mut inner = self.0.lock().unwrap();
        (0..batches).for_each(|_| inner.work());
    }

    pub(crate) fn clear(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.held.clear();
        inner.publish(vec![KvEvent::AllCleared]);
    }

    /// Another process takes its place: numbers from 0, nothing to replay, nothing held.
    pub(crate) fn restart(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.publisher.restart();
        inner.held.clear();
        (inner.life, inner.next_seq) = (inner.life + 1, 0);
    }

    /// What it holds.
    pub(crate) fn truth(&self) -> BTreeSet<u64> {
        self.0.lock().unwrap().truth()
    }

    /// Whether one of its processes held just this after its batch `seq`.
    pub(crate) fn ever_held(&self, blocks: &BTreeSet<u64>, seq: u64) -> bool {
        let inner = self.0.lock().unwrap();
        (1..=inner.life).any(|life| inner.truths.get(&(life, seq)) == Some(blocks))
    }
}

impl Inner {
    fn work(&mut self) {
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

    fn publish(&mut self, events: Vec<KvEvent>) {
        self.truths.insert((self.life, self.next_seq), self.truth());
        self.next_seq += 1;
        self.publisher.publish(events);
    }

    fn truth(&self) -> BTreeSet<u64> {
        self.held.iter().map(|(_, name)| *name).collect()
    }
}
