//! Taking single references away.

use std::slice;

use super::PrefixIndex;
use crate::block::SequenceHash;
use crate::index::block_map::BlockAt;
use crate::target::{Slot, Tier};

impl PrefixIndex {
    /// Takes one reference of `block` away; presence ends with the last. `false` when there was none.
    ///
    /// Blocks may go in any order: one that goes from the middle only shortens what its target covers.
    pub fn remove(&mut self, slot: Slot, tier: Tier, block: SequenceHash) -> bool {
        let Some(BlockAt { run: id, offset }) = self.blocks.find(block, &self.runs) else { return false };
        let Some(run) = self.runs.get_mut(id) else { return false };
        let Some(change) = run.release(slot, tier, offset) else { return false };
        if change.blocks > 0 {
            let lost = if change.holder { slice::from_ref(&slot) } else { &[] };
            self.after_loss(id, lost, change);
        }
        true
    }
}
