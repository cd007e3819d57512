//! The block table of one request: which blocks it uses, its block hashes, and what it has announced.

use std::sync::Arc;

use super::hash::{BlockHash, BlockHasher, ExtraKey};
use super::pool::{BlockId, BlockPool};
use crate::config::Adapter;
use crate::events::{BlockStored, KvEvent};

/// What separates the cache of some requests from that of others: adapter and salt.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CacheScope {
    /// The adapter the request names, if any.
    pub adapter: Option<Arc<Adapter>>,
    /// The request's `cache_salt`, if any.
    pub salt: Option<String>,
}

impl CacheScope {
    /// The keys hashed into block number `index`, in vLLM's order.
    pub fn extra_keys(&self, index: usize) -> Vec<ExtraKey> {
        let lora = self.adapter.as_ref().map(|a| ExtraKey::Lora { name: a.name.clone(), path: a.path.clone() });
        let salt = self.salt.as_ref().filter(|_| index == 0).map(|salt| ExtraKey::CacheSalt(salt.clone()));
        lora.into_iter().chain(salt).collect()
    }
}

/// Blocks and hashes of one request, in prompt order.
#[derive(Debug)]
pub struct BlockTable {
    block_size: usize,
    scope: CacheScope,
    blocks: Vec<BlockId>,
    hashes: Vec<BlockHash>,
    /// How many leading blocks are cached (and announced, or were found cached).
    cached: usize,
}

impl BlockTable {
    /// An empty table for blocks of `block_size` tokens.
    pub fn new(block_size: usize, scope: CacheScope) -> Self {
        Self { block_size, scope, blocks: Vec::new(), hashes: Vec::new(), cached: 0 }
    }

    /// The physical blocks, in prompt order.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Hashes of the full blocks known so far.
    pub fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// Extends the hashes to every full block of `tokens`.
    pub fn extend_hashes(&mut self, hasher: &BlockHasher, tokens: &[u32]) {
        for index in self.hashes.len()..tokens.len() / self.block_size {
            let block = &tokens[index * self.block_size..(index + 1) * self.block_size];
            let hash = hasher.block(self.hashes.last(), block, &self.scope.extra_keys(index));
            self.hashes.push(hash);
        }
    }

    /// The leading blocks that are cached. At least the last of `num_tokens` tokens is always computed anew, so a
    /// prompt that is cached to the end reports one block less.
    pub fn find_cached(&self, pool: &BlockPool, num_tokens: usize) -> Vec<BlockId> {
        let limit = num_tokens.saturating_sub(1) / self.block_size;
        self.hashes.iter().take(limit).map_while(|hash| pool.lookup(hash)).collect()
    }

    /// Makes room for `num_tokens` tokens; `found` are blocks from [`Self::find_cached`] that this (empty) table
    /// starts with. False, with nothing changed, when the pool has too few blocks.
    pub fn reserve(&mut self, pool: &mut BlockPool, found: &[BlockId], num_tokens: usize) -> bool {
        let wanted = num_tokens.div_ceil(self.block_size);
        let fresh = wanted.saturating_sub(self.blocks.len() + found.len());
        // A found block that nobody uses still counts as free until it is touched.
        let idle = found.iter().filter(|block| pool.references(**block) == 0).count();
        if fresh + idle > pool.free_blocks() {
            return false;
        }
        pool.touch(found);
        self.blocks.extend_from_slice(found);
        self.cached += found.len();
        if let Some(blocks) = pool.allocate(fresh) {
            self.blocks.extend(blocks);
        }
        true
    }

    /// Caches and announces, as one event, the blocks that are full once `num_tokens` of `tokens` are computed.
    pub fn cache_full(&mut self, pool: &mut BlockPool, tokens: &[u32], num_tokens: usize) {
        let full = num_tokens / self.block_size;
        if full <= self.cached {
            return;
        }
        let fresh = self.cached..full;
        for index in fresh.clone() {
            pool.cache(self.blocks[index], self.hashes[index]);
        }
        let parent = self.cached.checked_sub(1).map(|last| self.hashes[last].event_id());
        pool.announce(KvEvent::Stored(BlockStored {
            block_hashes: self.hashes[fresh.clone()].iter().map(BlockHash::event_id).collect(),
            parent_block_hash: parent,
            token_ids: tokens[fresh.start * self.block_size..full * self.block_size].to_vec(),
            block_size: self.block_size as u32,
            lora_id: self.scope.adapter.as_ref().map(|a| a.id),
            lora_name: self.scope.adapter.as_ref().map(|a| a.name.clone()),
            extra_keys: fresh.map(|index| self.event_keys(index)).collect(),
        }));
        self.cached = full;
    }

    fn event_keys(&self, index: usize) -> Option<Vec<String>> {
        let keys = self.scope.extra_keys(index);
        (!keys.is_empty()).then(|| keys.iter().map(|key| key.event_text().to_owned()).collect())
    }

    /// Gives every block back, tail first, so that the tail of a prompt is evicted before its head.
    pub fn release(&mut self, pool: &mut BlockPool) {
        pool.release(self.blocks.drain(..).rev());
        self.cached = 0;
    }
}
