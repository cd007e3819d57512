//! What a VM remembers between prompts. Every cache is bounded and holds only what tokenizing again would give.
//!
//! - [`WordCache`]: short pieces to tokens;
//! - [`ChunkCache`]: chunks of text, cut where context cannot matter, to tokens;
//! - [`PrefixCache`]: everything from the beginning of a prompt up to a checkpoint, to what its hashing has come to there;
//! - [`LeapCache`]: the same for beginnings of fixed length, which need no look at the text.

mod chunk;
mod clock;
mod leap;
mod prefix;
mod word;

pub(crate) use chunk::{ChunkCache, ChunkKey};
pub(crate) use leap::{LEAP, Landing, LeapCache, MARGIN};
pub(crate) use prefix::{Checkpoint, PrefixCache, PrefixKey};
pub(crate) use word::WordCache;

/// What the caches of one [`Prompter`](super::Prompter) have done since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Leaps; each stands for 8 KiB of text that was only hashed.
    pub leaps: u64,
    /// Checkpoints found; each stands for a kilobyte or more of text that was only hashed.
    pub prefix_hits: u64,
    /// Checkpoints looked for in vain.
    pub prefix_misses: u64,
    /// Chunks found whose prefix was new.
    pub chunk_hits: u64,
    /// Chunks looked for in vain, and tokenized.
    pub chunk_misses: u64,
    /// Entries dropped to stay within the bound.
    pub evictions: u64,
    /// Bytes held by the caches.
    pub bytes: u64,
}

/// Reads the counters of all of them.
pub(crate) fn stats(chunks: &ChunkCache, prefixes: &PrefixCache, leaps: &LeapCache) -> CacheStats {
    CacheStats {
        leaps: leaps.hits,
        prefix_hits: prefixes.hits,
        prefix_misses: prefixes.misses,
        chunk_hits: chunks.hits,
        chunk_misses: chunks.misses,
        evictions: chunks.evictions() + prefixes.evictions() + leaps.evictions(),
        bytes: chunks.weight() + prefixes.weight() + leaps.weight(),
    }
}
