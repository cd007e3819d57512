//! Dropping everything a target holds.

use std::slice;

use super::PrefixIndex;
use crate::target::{Slot, Tier};

impl PrefixIndex {
    /// Drops everything `slot` holds on `tier` (`None`: on every tier). Costs what the slot holds, not what the index
    /// has.
    pub fn clear(&mut self, slot: Slot, tier: Option<Tier>) {
        for weak in self.holdings.runs(slot, &self.runs) {
            let Some(run) = self.runs.upgrade_mut(weak) else { continue };
            let change = run.clear(slot, tier);
            if change.blocks > 0 {
                let lost = if change.holder { slice::from_ref(&slot) } else { &[] };
                self.after_loss(weak.id, lost, change);
            }
        }
    }
}
