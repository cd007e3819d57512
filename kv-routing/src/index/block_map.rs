//! Where each block lies: hash of a block to its run and its offset in it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};

use super::run::RunId;
use crate::block::SequenceHash;

/// Place of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockAt {
    pub(super) run: RunId,
    pub(super) offset: u16,
}

/// Every block of an index, each in exactly one run.
pub(super) type BlockMap = HashMap<SequenceHash, BlockAt, KeyedState>;

/// Inserts `block` unless it is known. Returns whether it was new.
pub(super) fn insert_new(blocks: &mut BlockMap, block: SequenceHash, at: BlockAt) -> bool {
    match blocks.entry(block) {
        Entry::Vacant(entry) => {
            entry.insert(at);
            true
        }
        Entry::Occupied(_) => false,
    }
}

/// Hashes keys that are hashes already.
///
/// Sequence hashes are well mixed, but their seed is public and their input is what clients send: whoever searches for
/// prompts whose hashes share their low bits could pile them into one bucket. One multiplication keyed by a secret
/// takes that away at the price of a few cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyedState {
    secret: u64,
    multiplier: u64,
}

impl KeyedState {
    pub(super) fn new(secret: u64) -> Self {
        /// Fractional part of the golden ratio: no pattern to its bits, so that a plain secret still mixes.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        Self { secret, multiplier: (secret.rotate_left(32) ^ GOLDEN) | 1 }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.secret, multiplier: self.multiplier }
    }
}

/// See [`KeyedState`].
#[derive(Debug)]
pub(super) struct KeyedHasher {
    state: u64,
    multiplier: u64,
}

impl Hasher for KeyedHasher {
    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ self.state) * u128::from(self.multiplier);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
