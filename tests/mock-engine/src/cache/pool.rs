//! The block pool: reference counts, the map from hash to cached blocks, and eviction.

use std::collections::HashMap;

use super::free_queue::FreeQueue;
use super::hash::BlockHash;
use crate::events::KvEvent;

/// Index of a physical block. Block 0 is the null block, which is never handed out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

#[derive(Clone, Default, Debug)]
struct Block {
    references: u32,
    hash: Option<BlockHash>,
}

/// All physical blocks of one rank. Queues the events that its changes cause.
#[derive(Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    free: FreeQueue,
    /// Physical blocks by content, oldest first: equal content computed twice at once is kept twice.
    cached: HashMap<BlockHash, Vec<BlockId>>,
    events: Vec<KvEvent>,
}

impl BlockPool {
    /// A pool of `num_blocks` blocks, the null block included (at least 2).
    pub fn new(num_blocks: u32) -> Self {
        let num_blocks = num_blocks.max(2);
        Self {
            blocks: vec![Block::default(); num_blocks as usize],
            free: FreeQueue::filled(1, num_blocks),
            cached: HashMap::new(),
            events: Vec::new(),
        }
    }

    /// Blocks that can hold tokens (all but the null block).
    pub fn capacity(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Blocks that can be handed out now, cached ones that nobody uses included.
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// Share of blocks in use, 0 to 1.
    pub fn usage(&self) -> f64 {
        1.0 - self.free.len() as f64 / self.capacity() as f64
    }

    /// Number of distinct cached hashes.
    pub fn cached_hashes(&self) -> usize {
        self.cached.len()
    }

    /// Every cached hash with its number of physical copies, for tests that compare an index with the truth.
    pub fn cached_contents(&self) -> Vec<(BlockHash, usize)> {
        self.cached.iter().map(|(hash, blocks)| (*hash, blocks.len())).collect()
    }

    /// The block that holds this content, if any: the oldest copy.
    pub fn lookup(&self, hash: &BlockHash) -> Option<BlockId> {
        self.cached.get(hash).and_then(|blocks| blocks.first()).copied()
    }

    /// How many requests use `block`.
    pub fn references(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].references
    }

    /// Takes a reference on blocks that a request found in the cache.
    pub fn touch(&mut self, blocks: &[BlockId]) {
        for block in blocks {
            if self.blocks[block.0 as usize].references == 0 {
                self.free.remove(*block);
            }
            self.blocks[block.0 as usize].references += 1;
        }
    }

    /// Hands out `count` blocks, evicting what they cached. `None`, with nothing changed, when there are too few.
    pub fn allocate(&mut self, count: usize) -> Option<Vec<BlockId>> {
        if count > self.free.len() {
            return None;
        }
        let blocks: Vec<BlockId> = std::iter::from_fn(|| self.free.pop_front()).take(count).collect();
        for block in &blocks {
            self.evict(*block);
            self.blocks[block.0 as usize].references = 1;
        }
        Some(blocks)
    }

    fn evict(&mut self, block: BlockId) {
        let Some(hash) = self.blocks[block.0 as usize].hash.take() else { return };
        if let Some(copies) = self.cached.get_mut(&hash) {
            copies.retain(|copy| *copy != block);
            if copies.is_empty() {
                self.cached.remove(&hash);
            }
        }
        self.events.push(KvEvent::Removed { hash: hash.event_id() });
    }

    /// Makes a full block findable by its content. The caller announces it.
    pub fn cache(&mut self, block: BlockId, hash: BlockHash) {
        self.blocks[block.0 as usize].hash = Some(hash);
        self.cached.entry(hash).or_default().push(block);
    }

    /// Gives back references, in the order given. Blocks without content go to the front of the free queue, cached
    /// ones to its end, so that what can still be hit is evicted last.
    pub fn release(&mut self, blocks: impl IntoIterator<Item = BlockId>) {
        let (mut plain, mut cached) = (Vec::new(), Vec::new());
        for id in blocks {
            let block = &mut self.blocks[id.0 as usize];
            block.references = block.references.saturating_sub(1);
            if block.references == 0 {
                if block.hash.is_some() { cached.push(id) } else { plain.push(id) }
            }
        }
        plain.into_iter().rev().for_each(|id| self.free.push_front(id));
        cached.into_iter().for_each(|id| self.free.push_back(id));
    }

    /// Forgets every cached block, unless some are in use. True when it did; the event waits for the next step.
    pub fn reset(&mut self) -> bool {
        if self.free.len() != self.capacity() {
            return false;
        }
        self.cached.clear();
        self.blocks.iter_mut().for_each(|block| block.hash = None);
        self.events.push(KvEvent::AllCleared);
        true
    }

    /// Queues an event.
    pub fn announce(&mut self, event: KvEvent) {
        self.events.push(event);
    }

    /// Takes the events queued since the last call, in order.
    pub fn take_events(&mut self) -> Vec<KvEvent> {
        std::mem::take(&mut self.events)
    }
}
