//! Prefix of a prompt to the state its hashing is in at a checkpoint.
//!
//! The key of a checkpoint is made of the key before it and of the text since, so walking a prompt from its beginning needs no
//! text and no tokens of what is known, only hashing. Each entry holds what has been added since the checkpoint before.

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use super::clock::Clock;
use crate::block::{ChainHasher, SequenceHash, TokenId};
use crate::tokens::HashPlan;

/// Name of everything up to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefixKey(u128);

impl PrefixKey {
    pub(super) fn value(self) -> u128 {
        self.0
    }
}

/// What hashing has come to, relative to the checkpoint before.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// Tokens from the beginning of the prompt.
    tokens: u32,
    /// Bytes of text since the checkpoint before.
    bytes: u32,
    /// Blocks filled since.
    hashes: Box<[SequenceHash]>,
    /// Tokens of the unfinished block.
    pending: Box<[u8]>,
    /// First tokens of the prompt, where no block was filled before.
    head: Box<[TokenId]>,
}

impl Checkpoint {
    /// The state of `hasher`, which had `known` blocks at the checkpoint before.
    pub(crate) fn of(hasher: &ChainHasher, known: usize, bytes: usize) -> Self {
        Self {
            tokens: hasher.tokens(),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            hashes: hasher.chain().get(known..).unwrap_or(&[]).into(),
            pending: hasher.pending().into(),
            head: if known == 0 { hasher.head().into() } else { Box::default() },
        }
    }

    /// Brings a hasher from the checkpoint before to this one.
    pub(crate) fn apply(&self, hasher: &mut ChainHasher) {
        hasher.skip(&self.hashes, &self.pending, self.tokens, &self.head);
    }

    /// Bytes it holds.
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.hashes) + self.pending.len() + size_of_val(&*self.head)
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    clock: Clock<Checkpoint>,
    seed: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl PrefixCache {
    pub(crate) fn new(bound: u64, seed: u64) -> Self {
        Self { clock: Clock::new(bound), seed, hits: 0, misses: 0 }
    }

    /// The key of an empty prompt.
    pub(crate) fn root(&self, plan: HashPlan, framed: bool) -> PrefixKey {
        let size = u64::from(plan.block_size.tokens());
        let words = [self.seed, plan.seed.value(), size, u64::from(framed)];
        PrefixKey(xxh3_128(&flatten(words)))
    }

    /// The key after `text`, when the key before it is `parent`.
    pub(crate) fn extend(&self, parent: PrefixKey, text: &[u8]) -> PrefixKey {
        let own = xxh3_128_with_seed(text, self.seed);
        let words = [parent.0 as u64, (parent.0 >> 64) as u64, own as u64, (own >> 64) as u64];
        PrefixKey(xxh3_128_with_seed(&flatten(words), text.len() as u64))
    }

    /// The checkpoint of a key, `bytes` of text behind the one before.
    pub(crate) fn get(&mut self, key: PrefixKey, bytes: usize) -> Option<&Checkpoint> {
        let found = self.clock.get(key.0).filter(|checkpoint| checkpoint.bytes as usize == bytes);
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    /// Remembers a checkpoint.
    pub(crate) fn put(&mut self, key: PrefixKey, checkpoint: Checkpoint) {
        let size = checkpoint.size();
        self.clock.insert(key.0, checkpoint, u32::try_from(size).unwrap_or(u32::MAX));
    }

    pub(super) fn weight(&self) -> u64 {
        self.clock.weight()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.clock.evictions()
    }
}

fn flatten(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    bytes
}
