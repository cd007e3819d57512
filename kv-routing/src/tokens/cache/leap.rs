//! Long known beginnings, taken in steps of fixed length.
//!
//! A checkpoint of [`PrefixCache`](super::PrefixCache) lies where a group of items ends, and finding that place means going over the text.
//! Landings are keyed by the first [`LEAP`], 2·[`LEAP`], ... bytes of the text instead, so a known beginning costs one hash of its
//! bytes. A landing lies some way before the end of its key's text, where the items are settled whatever follows that text: see
//! [`Landing::settled`].

use super::clock::Clock;
use super::prefix::{Checkpoint, PrefixKey};

/// Bytes of text from one key to the next.
pub(crate) const LEAP: usize = 8 << 10;
/// A landing lies at least this many bytes before the end of its key's text, which is more than an added token has.
pub(crate) const MARGIN: usize = 512;

/// Where preparing goes on after a leap.
#[derive(Debug)]
pub(crate) struct Landing {
    /// Offset in the text.
    pub(crate) at: usize,
    /// Key of the group that ends there.
    pub(crate) key: PrefixKey,
    /// The text goes on within a stretch between added tokens.
    pub(crate) in_stretch: bool,
    /// What hashing has come to since the landing before.
    pub(crate) checkpoint: Checkpoint,
}

impl Landing {
    /// Whether items that end at `at` are the same in every text that begins with `known`. An added token that begins before `at` ends
    /// within `known`, hence is no news. One that begins behind `known` reaches back at most over white space, hence not
    /// to `at` when something visible lies between.
    pub(crate) fn settled(known: &[u8], at: usize) -> bool {
        known.get(at..).is_some_and(|rest| rest.len() >= MARGIN && rest.iter().any(u8::is_ascii_graphic))
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct LeapCache {
    clock: Clock<Landing>,
    pub(super) hits: u64,
}

impl LeapCache {
    pub(crate) fn new(bound: u64) -> Self {
        Self { clock: Clock::new(bound), hits: 0 }
    }

    /// The landing of a key.
    pub(crate) fn get(&mut self, key: PrefixKey) -> Option<&Landing> {
        let found = self.clock.get(key.value());
        self.hits += u64::from(found.is_some());
        found
    }

    /// Remembers a landing.
    pub(crate) fn put(&mut self, key: PrefixKey, landing: Landing) {
        let size = landing.checkpoint.size() + size_of::<Landing>();
        self.clock.insert(key.value(), landing, u32::try_from(size).unwrap_or(u32::MAX));
    }

    pub(super) fn weight(&self) -> u64 {
        self.clock.weight()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.clock.evictions()
    }
}
