//! Interface of a pool's ingest.

use std::time::Instant;

use kv_routing::block::BlockSize;
use kv_routing::index::PrefixIndex;
use kv_routing::target::Slot;

use super::{IngestConfig, Parity, SourceReport, SourceSpec};
use crate::stream::{ReplayId, StreamEvent};

/// What ingest wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the stream's engine for its batches from `from` on.
    Replay {
        /// Comes back in the answers.
        id: ReplayId,
        /// First sequence number wanted.
        from: u64,
    },
}

/// Residency and prefix index of one pool.
#[derive(Debug)]
pub struct Ingest {
    index: PrefixIndex,
}

impl Ingest {
    /// An empty pool.
    pub fn new(config: IngestConfig) -> Self {
        Self { index: PrefixIndex::new(config.limits) }
    }

    /// Begins to follow a target. Its state is NONE until its stream connects.
    pub fn add_target(&mut self, slot: Slot, spec: SourceSpec) {
        let _ = (slot, spec);
    }

    /// Forgets a target and everything it holds.
    pub fn remove_target(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// Takes one stream event of `slot`; events of unknown slots are ignored.
    pub fn handle(&mut self, slot: Slot, event: StreamEvent, now: Instant) -> Vec<Action> {
        let _ = (slot, event, now);
        Vec::new()
    }

    /// What is due by time alone: audits of quiet streams, retries. Call it about every second.
    pub fn tick(&mut self, now: Instant) -> Vec<(Slot, Action)> {
        let _ = now;
        Vec::new()
    }

    /// Sets the result of token parity checks of a target.
    pub fn set_parity(&mut self, slot: Slot, parity: Parity) {
        let _ = (slot, parity);
    }

    /// The pool's block size, learned from events; `None` until the first usable one.
    pub fn block_size(&self) -> Option<BlockSize> {
        None
    }

    /// State and counters of a target; `None` for an unknown slot.
    pub fn report(&self, slot: Slot) -> Option<SourceReport> {
        let _ = slot;
        None
    }

    /// The index.
    pub fn index(&self) -> &PrefixIndex {
        &self.index
    }

    /// The index, for taking dirty pages.
    pub fn index_mut(&mut self) -> &mut PrefixIndex {
        &mut self.index
    }
}
