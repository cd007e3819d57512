//! Placeholder of the writer's interface; the run tree goes here.

use super::Overlaps;
use crate::block::SequenceHash;
use crate::target::{Slot, Tier};
use crate::wire::Epoch;

/// Bounds of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexLimits {
    /// Distinct blocks kept; at the bound the least recently stored leaf runs go first.
    pub max_blocks: u64,
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOutcome {
    /// References added.
    pub added: u32,
    /// Blocks dropped from the index to stay within its bound.
    pub evicted_blocks: u32,
}

/// Size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Distinct blocks.
    pub blocks: u64,
    /// Runs.
    pub runs: u64,
    /// (block, target, tier) triples present.
    pub holder_blocks: u64,
    /// Pages of the page set.
    pub pages: u64,
    /// Blocks ever dropped because of the bound.
    pub evicted_blocks: u64,
    /// Estimated bytes of memory.
    pub bytes: u64,
}

/// The exact index of one pool, kept by the bridge.
#[derive(Debug)]
pub struct PrefixIndex {
    limits: IndexLimits,
}

impl PrefixIndex {
    /// An empty index.
    pub fn new(limits: IndexLimits) -> Self {
        Self { limits }
    }

    /// Adds one reference of each of `blocks` for `slot` on `tier`. `blocks` is a contiguous piece of one chain;
    /// `parent` is the hash before its first block (`None`: chain root). An unknown parent is an orphan: the caller keeps those.
    pub fn store(
        &mut self,
        slot: Slot,
        tier: Tier,
        parent: Option<SequenceHash>,
        blocks: &[SequenceHash],
    ) -> StoreOutcome {
        let _ = (slot, tier, parent, blocks, self.limits);
        StoreOutcome::default()
    }

    /// Takes one reference of `block` away; presence ends with the last. `false` when there was none.
    pub fn remove(&mut self, slot: Slot, tier: Tier, block: SequenceHash) -> bool {
        let _ = (slot, tier, block);
        false
    }

    /// Drops everything `slot` holds on `tier` (`None`: on every tier).
    pub fn clear(&mut self, slot: Slot, tier: Option<Tier>) {
        let _ = (slot, tier);
    }

    /// Whether any target holds `block`, i.e. whether children can be attached to it.
    pub fn knows(&self, block: SequenceHash) -> bool {
        let _ = block;
        false
    }

    /// Native lookup, for explanations and the admin API.
    pub fn overlaps(&self, chain: &[SequenceHash]) -> Overlaps {
        let _ = chain;
        Overlaps::default()
    }

    /// log2 of the number of pages of the page set in force.
    pub fn page_bits(&self) -> u8 {
        0
    }

    /// Numbers of the pages changed since the last call, ascending. After growth it names every page of the new set.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// Encodes one page (`page < 2^page_bits`).
    pub fn encode_page(&self, page: u32, epoch: Epoch) -> Vec<u8> {
        let _ = (page, epoch);
        Vec::new()
    }

    /// Size figures.
    pub fn stats(&self) -> IndexStats {
        IndexStats::default()
    }
}
