//! Engines with full caches, for benchmarks and memory figures.

use std::collections::VecDeque;

use kv_routing::block::SequenceHash;
use kv_routing::index::PrefixIndex;
use kv_routing::target::{Slot, Tier};

/// Leading blocks of a prompt that other prompts share.
const SHARED: usize = 32;
/// Blocks of a prompt that are its own.
const OWN: usize = 32;

/// The chain of a conversation of its own. Hashes look random, as real ones do.
pub(crate) fn conversation(name: u64, blocks: usize) -> Vec<SequenceHash> {
    let scramble = |number: u64| {
        let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    };
    let seed = scramble(name);
    let block = |at: u64| SequenceHash(scramble(seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    (1..=blocks as u64).map(block).collect()
}

/// Engines that announce only what they did not hold, and evict their oldest prompt, last block first.
pub(crate) struct Fleet {
    engines: Vec<Engine>,
    capacity: usize,
    shared: Vec<Vec<SequenceHash>>,
    next: u64,
    /// Blocks stored and removed so far.
    pub(crate) events: u64,
}

#[derive(Default)]
struct Engine {
    /// Prompts in the order they came: which prefix, and their own blocks.
    prompts: VecDeque<(usize, Vec<SequenceHash>)>,
    /// Prompts by prefix.
    users: Vec<u32>,
    blocks: usize,
}

impl Fleet {
    /// `engines` with room for `capacity` blocks each. About eight of them hold each shared prefix.
    pub(crate) fn new(engines: usize, capacity: usize) -> Self {
        let prompts = capacity / OWN / 2;
        let prefixes = (engines * prompts / 8).max(1);
        let engine = || Engine { users: vec![0; prefixes], ..Engine::default() };
        Self {
            engines: (0..engines).map(|_| engine()).collect(),
            capacity,
            shared: (0..prefixes as u64).map(|name| conversation(1 << 40 | name, SHARED)).collect(),
            next: 0,
            events: 0,
        }
    }

    /// Steps until all caches are full.
    pub(crate) fn fill(&mut self, index: &mut PrefixIndex) {
        while self.engines.iter().any(|engine| engine.blocks + SHARED + OWN <= self.capacity) {
            self.step(index);
        }
    }

    /// One prompt on one engine.
    pub(crate) fn step(&mut self, index: &mut PrefixIndex) {
        let count = self.engines.len() as u64;
        let slot = Slot((self.next % count) as u16);
        let prefix = (self.next / count * count + self.next % count / 8 * 8) as usize / 8 % self.shared.len();
        let engine = &mut self.engines[usize::from(slot.0)];
        let own = conversation(self.next, OWN);
        self.next += 1;
        let stored = if engine.users[prefix] == 0 {
            let prompt = [self.shared[prefix].as_slice(), &own].concat();
            index.store(slot, Tier::Device, None, &prompt).added
        } else {
            index.store(slot, Tier::Device, self.shared[prefix].last().copied(), &own).added
        };
        self.events += u64::from(stored);
        engine.users[prefix] += 1;
        engine.blocks += stored as usize;
        engine.prompts.push_back((prefix, own));
        while engine.blocks > self.capacity {
            let Some((prefix, own)) = engine.prompts.pop_front() else { break };
            engine.users[prefix] -= 1;
            let unused = if engine.users[prefix] == 0 { self.shared[prefix].as_slice() } else { &[] };
            for block in own.iter().rev().chain(unused.iter().rev()) {
                assert!(index.remove(slot, Tier::Device, *block));
                engine.blocks -= 1;
                self.events += 1;
            }
        }
    }
}
