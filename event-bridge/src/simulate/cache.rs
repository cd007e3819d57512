//! One engine's prefix cache: blocks in use are pinned, the others go least recently used first, tails before heads.

use std::collections::{BTreeSet, HashMap};

use kv_routing::block::SequenceHash;

#[derive(Debug)]
struct Block {
    pins: u32,
    /// When it was last let go, and how far from the chain's end, so that tails are evicted first.
    rank: (u64, u32),
}

/// Prefix cache of a bounded number of blocks.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: usize,
    blocks: HashMap<SequenceHash, Block>,
    idle: BTreeSet<((u64, u32), SequenceHash)>,
    clock: u64,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, blocks: HashMap::new(), idle: BTreeSet::new(), clock: 0 }
    }

    /// Leading blocks of `chain` it holds.
    pub(super) fn overlap(&self, chain: &[SequenceHash]) -> u32 {
        let held = chain.iter().take_while(|hash| self.blocks.contains_key(hash)).count();
        u32::try_from(held).unwrap_or(u32::MAX)
    }

    /// Pins the blocks of `chain`, making room for those it lacks. A block for which there is no room, since everything is
    /// pinned, and all behind it are computed without being kept.
    pub(super) fn pin(&mut self, chain: &[SequenceHash]) {
        for hash in chain {
            match self.blocks.get_mut(hash) {
                Some(block) => {
                    if block.pins == 0 {
                        self.idle.remove(&(block.rank, *hash));
                    }
                    block.pins += 1;
                }
                None => {
                    if self.blocks.len() >= self.capacity && !self.evict() {
                        return;
                    }
                    self.blocks.insert(*hash, Block { pins: 1, rank: (0, 0) });
                }
            }
        }
    }

    /// Lets the blocks of `chain` go; they stay until the room is needed.
    pub(super) fn unpin(&mut self, chain: &[SequenceHash]) {
        self.clock += 1;
        for (from_end, hash) in (0..).zip(chain.iter().rev()) {
            if let Some(block) = self.blocks.get_mut(hash)
                && block.pins > 0
            {
                block.pins -= 1;
                if block.pins == 0 {
                    block.rank = (self.clock, from_end);
                    self.idle.insert((block.rank, *hash));
                }
            }
        }
    }

    fn evict(&mut self) -> bool {
        match self.idle.pop_first() {
            Some((_, hash)) => self.blocks.remove(&hash).is_some(),
            None => false,
        }
    }
}
