//! All targets of a pool over one index.

use std::collections::BTreeMap;
use std::time::Instant;

use kv_routing::block::BlockSize;
use kv_routing::index::PrefixIndex;
use kv_routing::target::Slot;

use super::residency::Blocks;
use super::target::{Target, context};
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
    config: IngestConfig,
    index: PrefixIndex,
    blocks: Blocks,
    targets: BTreeMap<Slot, Target>,
}

impl Ingest {
    /// An empty pool.
    pub fn new(config: IngestConfig) -> Self {
        Self {
            index: PrefixIndex::with_secret(config.limits, config.secret),
            blocks: Blocks::new(config.expected_block_size, config.min_block_tokens),
            targets: BTreeMap::new(),
            config,
        }
    }

    /// Begins to follow a target. Its state is NONE until its stream connects. A slot that is followed already begins
    /// anew.
    pub fn add_target(&mut self, slot: Slot, spec: SourceSpec) {
        let target = Target::new(slot, spec, &self.config);
        if let Some(mut former) = self.targets.insert(slot, target) {
            former.leave(&mut self.index);
        }
    }

    /// Forgets a target and everything it holds. The last one takes the learned block size with it.
    pub fn remove_target(&mut self, slot: Slot) {
        if let Some(mut target) = self.targets.remove(&slot) {
            target.leave(&mut self.index);
        }
        if self.targets.is_empty() {
            self.blocks.forget();
        }
    }

    /// Takes one stream event of `slot`; events of unknown slots are ignored.
    pub fn handle(&mut self, slot: Slot, event: StreamEvent, now: Instant) -> Vec<Action> {
        let Some(target) = self.targets.get_mut(&slot) else { return Vec::new() };
        let asks = target.handle(event, now, &mut context(&mut self.index, &mut self.blocks));
        asks.into_iter().map(|(id, from)| Action::Replay { id, from }).collect()
    }

    /// What is due by time alone: audits of quiet streams, replays that never end. Call it about every second.
    pub fn tick(&mut self, now: Instant) -> Vec<(Slot, Action)> {
        let mut actions = Vec::new();
        for (slot, target) in &mut self.targets {
            let asks = target.tick(now, &mut context(&mut self.index, &mut self.blocks));
            actions.extend(asks.into_iter().map(|(id, from)| (*slot, Action::Replay { id, from })));
        }
        actions
    }

    /// Sets the result of token parity checks of a target.
    pub fn set_parity(&mut self, slot: Slot, parity: Parity) {
        if let Some(target) = self.targets.get_mut(&slot) {
            target.set_parity(parity);
        }
    }

    /// The pool's block size, learned from events; `None` until the first usable one.
    pub fn block_size(&self) -> Option<BlockSize> {
        self.blocks.size()
    }

    /// Configured and learned block size, when they disagree. The learned one counts.
    pub fn block_size_conflict(&self) -> Option<(BlockSize, BlockSize)> {
        let (expected, learned) = (self.config.expected_block_size?, self.blocks.size()?);
        (expected != learned).then_some((expected, learned))
    }

    /// State and counters of a target; `None` for an unknown slot.
    pub fn report(&self, slot: Slot) -> Option<SourceReport> {
        self.targets.get(&slot).map(Target::report)
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
