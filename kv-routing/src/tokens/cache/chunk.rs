//! Chunk of text to tokens.

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::clock::Clock;
use crate::block::TokenId;

/// Shorter chunks are tokenized sooner than they are found.
const SHORTEST: usize = 48;
/// Longer chunks hold a piece without a place to cut; they do not come twice often enough.
const LONGEST: usize = 32 << 10;

/// Name of a chunk: 128 bits of hash over its text and, in the seed, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey(u128);

/// The cache.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    clock: Clock<Chunk>,
    seed: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

#[derive(Debug)]
struct Chunk {
    bytes: u32,
    tokens: Box<[TokenId]>,
}

impl ChunkCache {
    pub(crate) fn new(bound: u64, seed: u64) -> Self {
        Self { clock: Clock::new(bound), seed, hits: 0, misses: 0 }
    }

    /// The key of a chunk, or `None` when the cache is not for chunks of its length. `position` tells apart where equal chunks
    /// may tokenize differently.
    pub(crate) fn key(&self, text: &[u8], position: u8) -> Option<ChunkKey> {
        let wanted = (SHORTEST..=LONGEST).contains(&text.len());
        wanted.then(|| ChunkKey(xxh3_128_with_seed(text, self.seed.wrapping_add(u64::from(position)))))
    }

    /// The tokens of a chunk of `bytes` bytes.
    pub(crate) fn get(&mut self, key: ChunkKey, bytes: usize) -> Option<&[TokenId]> {
        let found = self.clock.get(key.0).filter(|chunk| chunk.bytes as usize == bytes);
        match found {
            Some(chunk) => {
                self.hits += 1;
                Some(&chunk.tokens)
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }

    /// Remembers a chunk.
    pub(crate) fn put(&mut self, key: ChunkKey, bytes: usize, tokens: &[TokenId]) {
        let (Ok(bytes), Ok(weight)) = (u32::try_from(bytes), u32::try_from(size_of_val(tokens))) else { return };
        self.clock.insert(key.0, Chunk { bytes, tokens: tokens.into() }, weight);
    }

    pub(super) fn weight(&self) -> u64 {
        self.clock.weight()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.clock.evictions()
    }
}
