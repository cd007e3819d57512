//! What else than tokens tells two prompts apart: LoRA adapter and cache salt.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed of chain links, and of local hashes when neither adapter nor salt is used.
pub const BASE_SEED: u64 = 1337;

/// Seed of a prompt's local hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashSeed(u64);

impl Default for HashSeed {
    fn default() -> Self {
        Self(BASE_SEED)
    }
}

impl HashSeed {
    /// [`BASE_SEED`], plus XXH3 of the adapter name (seed 0) and of the cache salt (seed 1), wrapping.
    /// Empty strings count as absent.
    pub fn new(adapter: Option<&str>, salt: Option<&str>) -> Self {
        let part = |text: Option<&str>, seed| match text {
            Some(text) if !text.is_empty() => xxh3_64_with_seed(text.as_bytes(), seed),
            _ => 0,
        };
        Self(BASE_SEED.wrapping_add(part(adapter, 0)).wrapping_add(part(salt, 1)))
    }

    /// The seed whose [`HashSeed::value`] is this.
    pub fn from_value(value: u64) -> Self {
        Self(value)
    }

    /// The number fed to XXH3.
    pub fn value(self) -> u64 {
        self.0
    }
}
