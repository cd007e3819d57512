//! The exact index of one pool.

mod clear;
mod dump;
mod evict;
mod holdings;
mod matching;
mod remove;
mod store;

use std::collections::BTreeSet;

use self::evict::EvictionQueue;
use self::holdings::Holdings;
use super::block_map::{BlockAt, BlockMap};
use super::holder::RUN_BLOCKS;
use super::pages::{self, PageSet, PageTuning};
use super::run::{Change, RunId, Runs};
use super::{IndexLimits, IndexStats};
use crate::block::SequenceHash;
use crate::target::{Slot, Tier};
use crate::wire::Epoch;

/// The exact index of one pool, kept by the bridge.
///
/// It believes what it is told about chains: a hash names a whole prefix, so a block that is known stays where it is,
/// whatever parent it is stored with again.
#[derive(Debug)]
pub struct PrefixIndex {
    max_blocks: u64,
    run_blocks: u16,
    blocks: BlockMap,
    runs: Runs,
    pages: PageSet,
    holdings: Holdings,
    queue: EvictionQueue,
    /// Counts stores; orders runs by age.
    clock: u64,
    holders: u64,
    holder_blocks: u64,
    evicted_blocks: u64,
    /// Targets that lost something to a bound since somebody asked.
    bereft: BTreeSet<Slot>,
}

/// What else than its bounds shapes an index. Tests use small numbers to reach every edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    pub(super) run_blocks: u16,
    pub(super) pages: PageTuning,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { run_blocks: RUN_BLOCKS, pages: PageTuning::default() }
    }
}

impl PrefixIndex {
    /// An empty index. Its block map is keyed with a constant: use [`PrefixIndex::with_secret`] where prompts come from
    /// strangers.
    pub fn new(limits: IndexLimits) -> Self {
        Self::with_secret(limits, 0)
    }

    /// An empty index whose block map is keyed with `secret`, a random number nobody else knows, so that nobody can
    /// search for prompts that fall into one bucket of it.
    pub fn with_secret(limits: IndexLimits, secret: u64) -> Self {
        Self::tuned(limits, secret, Tuning::default())
    }

    pub(super) fn tuned(limits: IndexLimits, secret: u64, tuning: Tuning) -> Self {
        let run_blocks = tuning.run_blocks.clamp(1, RUN_BLOCKS);
        Self {
            max_blocks: limits.max_blocks.max(2 * u64::from(run_blocks)),
            run_blocks,
            blocks: BlockMap::new(secret),
            runs: Runs::default(),
            pages: PageSet::new(tuning.pages),
            holdings: Holdings::default(),
            queue: EvictionQueue::default(),
            clock: 0,
            holders: 0,
            holder_blocks: 0,
            evicted_blocks: 0,
            bereft: BTreeSet::new(),
        }
    }

    /// Targets of which blocks were dropped for a bound since the last call: the index no longer shows all they hold.
    pub fn take_bereft(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.bereft)
    }

    /// Whether any target holds `block`.
    pub fn knows(&self, block: SequenceHash) -> bool {
        let Some(BlockAt { run, offset }) = self.blocks.find(block, &self.runs) else { return false };
        let holds = |holder: &super::holder::Holder| Tier::ALL.into_iter().any(|tier| holder.holds(tier, offset));
        self.runs.get(run).is_some_and(|run| run.holders.iter().any(holds))
    }

    /// Whether `slot` holds `block` on `tier`.
    pub fn holds(&self, slot: Slot, tier: Tier, block: SequenceHash) -> bool {
        let Some(BlockAt { run, offset }) = self.blocks.find(block, &self.runs) else { return false };
        self.runs.get(run).and_then(|run| run.holder(slot)).is_some_and(|holder| holder.holds(tier, offset))
    }

    /// log2 of the number of pages of the page set in force. Only a store can change it.
    pub fn page_bits(&self) -> u8 {
        self.pages.bits()
    }

    /// Numbers of the pages whose bytes changed since the last call, ascending; at first, and after growth, every page
    /// of the set.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        self.pages.take_dirty()
    }

    /// Encodes one page (`page < 2^page_bits`). Equal content gives equal bytes, whatever led to it.
    pub fn encode_page(&self, page: u32, epoch: Epoch) -> Vec<u8> {
        let runs = self.pages.runs(page).iter().filter_map(|id| self.runs.get(*id));
        pages::encode(page, self.pages.bits(), epoch, runs)
    }

    /// Size figures. Cheap: costs a few steps per target, not per block.
    pub fn stats(&self) -> IndexStats {
        let blocks = self.blocks.len() as u64;
        // Vectors that grow by doubling are a quarter empty on average.
        let vectors = (blocks * 8 + self.holders * size_of::<super::holder::Holder>() as u64) * 5 / 4;
        let tables = self.runs.arena_bytes() + self.pages.table_bytes() + self.holdings.bytes() + self.queue.bytes();
        IndexStats {
            blocks,
            runs: self.runs.len() as u64,
            holders: self.holders,
            holder_blocks: self.holder_blocks,
            pages: self.pages.len() as u64,
            page_bytes: self.pages.bytes(),
            evicted_blocks: self.evicted_blocks,
            bytes: (self.blocks.bytes() + tables) as u64 + vectors,
        }
    }

    /// Settles the books after a target lost something of a run: counters, blocks at its end that nobody holds any
    /// more, the run itself when nothing is left, its page.
    fn after_loss(&mut self, id: RunId, lost_holders: &[Slot], change: Change) {
        self.holder_blocks = self.holder_blocks.saturating_sub(change.blocks.into());
        self.holders = self.holders.saturating_sub(lost_holders.len() as u64);
        for slot in lost_holders {
            self.holdings.lose(*slot);
        }
        let Some(run) = self.runs.get_mut(id) else { return };
        let extent = run.extent();
        for (offset, hash) in (extent..).zip(run.hashes.drain(usize::from(extent)..)) {
            self.blocks.remove(hash, BlockAt { run: id, offset });
        }
        self.pages.update(run, change.published);
        if extent == 0 {
            self.end_run(id);
        }
    }

    fn end_run(&mut self, id: RunId) {
        let Some(mut run) = self.runs.remove(id) else { return };
        self.pages.remove(id, &mut run);
        let Some(link) = run.link else { return };
        let Some(parent) = self.runs.upgrade_mut(link) else { return };
        parent.children = parent.children.saturating_sub(1);
        if parent.children == 0 {
            parent.branched = 0;
            self.queue.enter(link, parent);
        }
    }
}
