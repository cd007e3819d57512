//! Everything the index holds, for the admin API and for comparisons.

use std::collections::HashMap;

use super::PrefixIndex;
use crate::block::SequenceHash;
use crate::index::block_map::BlockAt;
use crate::index::run::{Run, RunId};
use crate::target::{Slot, Tier};

impl PrefixIndex {
    /// Calls `visit(slot, tier, block, depth)` for every triple present, in no particular order. `depth` is the
    /// block's position in its chain, 0 at the root; `None` when something before it is not known, so that no lookup
    /// can reach it.
    pub fn for_each_holder(&self, mut visit: impl FnMut(Slot, Tier, SequenceHash, Option<u32>)) {
        let mut depths = HashMap::new();
        for (id, run) in self.runs.iter() {
            let first = self.depth(id, run, &mut depths);
            for holder in &run.holders {
                for tier in Tier::ALL {
                    for (offset, hash) in (0_u16..).zip(&run.hashes) {
                        if holder.holds(tier, offset) {
                            visit(holder.slot, tier, *hash, first.map(|first| first + u32::from(offset)));
                        }
                    }
                }
            }
        }
    }

    /// Calls `visit` for every piece of a chain of which `slot` holds something, with the block before it (`None`: chain root).
    /// Costs what the slot holds, not what the index has.
    pub fn for_each_piece(&mut self, slot: Slot, mut visit: impl FnMut(Option<SequenceHash>, &[SequenceHash])) {
        for weak in self.holdings.runs(slot, &self.runs) {
            if let Some(run) = self.runs.upgrade(weak) {
                visit(run.parent, &run.hashes);
            }
        }
    }

    /// Depth of a run's first block. `depths` remembers those found before.
    fn depth(&self, id: RunId, run: &Run, depths: &mut HashMap<RunId, Option<u32>>) -> Option<u32> {
        let mut path = Vec::new();
        let mut at = (id, run);
        let mut depth = loop {
            if let Some(known) = depths.get(&at.0) {
                break *known;
            }
            let Some(parent) = at.1.parent else {
                depths.insert(at.0, Some(0));
                break Some(0);
            };
            // Should parents form a circle, this entry ends it.
            depths.insert(at.0, None);
            let Some(BlockAt { run: above, offset }) = self.blocks.find(parent, &self.runs) else { break None };
            path.push((at.0, u32::from(offset) + 1));
            let Some(run) = self.runs.get(above) else { break None };
            at = (above, run);
        };
        for (id, below) in path.into_iter().rev() {
            depth = depth.map(|depth| depth + below);
            depths.insert(id, depth);
        }
        depth
    }
}
