//! The paged KV cache: block hashes, the block pool with its eviction order, and the block table of one request.
//!
//! Behaves like vLLM 0.32 down to the order of evictions and the block hashes themselves, so that recorded traffic of
//! a real engine is reproduced byte for byte (see `tests/recorded.rs`).

mod free_queue;
mod hash;
mod pool;
mod table;
#[cfg(test)]
mod tests;

pub use hash::{BlockHash, BlockHasher, DEFAULT_HASH_SEED, ExtraKey};
pub use pool::{BlockId, BlockPool};
pub use table::{BlockTable, CacheScope};
