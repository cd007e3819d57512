//! One push in the making: values in order, and what will be true once it is acknowledged.

use bytes::Bytes;
use kv_routing::wire::{Epoch, PUSH_PART_BYTES, Push, Put, WireError};
use tokio::time::Instant;

use super::link::Covered;

/// A push that is being put together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    puts: Vec<(String, Bytes)>,
    bytes: usize,
    /// (pool, version) of the target tables in it.
    pub(super) tables: Vec<(usize, u64)>,
    /// Version of the policy document in it.
    pub(super) policy: Option<u64>,
    /// (tokenizer, part) of the tokenizer parts in it.
    pub(super) parts: Vec<(u64, u32)>,
    /// What its manifest says.
    pub(super) manifest: Option<Covered>,
    /// Number of pages in it.
    pub(super) pages: u64,
    /// When the oldest event was received that its pages are the first to contain.
    pub(super) oldest_events: Vec<Instant>,
    /// More pages are waiting than fitted.
    pub(super) more: bool,
}

impl Draft {
    /// Bytes left before it counts as full.
    pub(super) fn room(&self) -> usize {
        PUSH_PART_BYTES.saturating_sub(self.bytes)
    }

    /// Whether `value` fits. Into an empty push everything does: a value cannot be divided.
    pub(super) fn fits(&self, value: &Bytes) -> bool {
        self.puts.is_empty() || value.len() <= self.room()
    }

    pub(super) fn put(&mut self, key: String, value: Bytes) {
        self.bytes += key.len() + value.len();
        self.puts.push((key, value));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    pub(super) fn encode(&self, epoch: Epoch, snapshot: bool) -> Result<Vec<u8>, WireError> {
        let puts = self.puts.iter().map(|(key, value)| Put { key, value }).collect();
        Push { epoch, snapshot, puts }.encode()
    }

    /// Keys in order, for tests.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<&str> {
        self.puts.iter().map(|put| put.0.as_str()).collect()
    }

    /// The value under `key`, for tests.
    #[cfg(test)]
    pub(super) fn value(&self, key: &str) -> Option<&Bytes> {
        self.puts.iter().find(|put| put.0 == key).map(|put| &put.1)
    }
}
