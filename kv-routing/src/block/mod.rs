//! Tokens to full blocks to chained hashes. Nothing else in the project computes either hash.
//!
//! Compatible with Dynamo's public router hash, so that events, tools and dumps can be compared:
//!
//! - local hash of a block: XXH3-64 over its token ids as little-endian `u32`, seeded (see [`HashSeed`]);
//! - sequence hash of block 0: its local hash; of block `i`: XXH3-64 over the little-endian `u64` of
//!   sequence hash `i - 1` followed by that of local hash `i`, seed [`BASE_SEED`].
//!
//! One sequence hash therefore names a whole prefix. Only full blocks are hashed.

mod chain;
mod marks;
mod seed;

use std::fmt;
use std::num::NonZeroU32;

use bincode::{Decode, Encode};

pub use chain::{ChainHasher, HEAD_TOKENS, chain, extend, image_hash, local_hash, local_hash_with_images};
pub use marks::{mark_depths, marked_overlap, marks};
pub use seed::{BASE_SEED, HashSeed};

/// One token of a vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[repr(transparent)]
pub struct TokenId(pub u32);

/// Hash of one block's own tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[repr(transparent)]
pub struct LocalHash(pub u64);

/// Hash of a block and of everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[repr(transparent)]
pub struct SequenceHash(pub u64);

impl fmt::Display for SequenceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Tokens per block; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockSize(NonZeroU32);

impl BlockSize {
    /// Largest size accepted from configuration or events. Engines in the field use 1 to 1024.
    pub const MAX: u32 = 8192;

    /// What loads are priced by while a pool's own size is not known.
    pub const PRICING: Self = Self(NonZeroU32::MIN.saturating_add(15));

    /// `None` when `tokens` is zero or above [`BlockSize::MAX`].
    pub fn new(tokens: u32) -> Option<Self> {
        if tokens > Self::MAX {
            return None;
        }
        NonZeroU32::new(tokens).map(Self)
    }

    /// Tokens per block.
    pub fn tokens(self) -> u32 {
        self.0.get()
    }

    /// Number of full blocks in `tokens` tokens.
    pub fn full_blocks(self, tokens: u32) -> u32 {
        tokens / self.tokens()
    }
}
