//! Maps keyed by an engine's block hashes.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use crate::engine::EngineHash;

/// From an engine's hash to something.
pub(super) type EngineMap<V> = HashMap<EngineHash, V, Keyed>;

/// Hashes keys that are hashes already, with one multiplication. A secret factor keeps whoever can choose prompts from
/// piling their blocks into one bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(u64);

impl Keyed {
    pub(super) fn new(secret: u64) -> Self {
        /// Fractional part of the golden ratio, so that a plain secret still mixes.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        Self((secret.rotate_left(31) ^ GOLDEN) | 1)
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { factor: self.0, state: 0 }
    }
}

/// See [`Keyed`].
#[derive(Debug)]
pub(super) struct KeyedHasher {
    factor: u64,
    state: u64,
}

impl Hasher for KeyedHasher {
    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ self.state) * u128::from(self.factor);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_u8(&mut self, key: u8) {
        self.write_u64(u64::from(key));
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
