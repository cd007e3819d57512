//! The index without any cleverness: the oracle that property tests hold the real one to.

use std::collections::{BTreeMap, HashMap};

use super::{Overlap, Overlaps, StoreOutcome};
use crate::block::SequenceHash;
use crate::target::{Slot, Tier};

/// A map from block to references by holder. It has no bound, no runs and no pages.
#[derive(Clone, Debug, Default)]
pub struct NaiveIndex {
    blocks: HashMap<SequenceHash, BTreeMap<(Slot, Tier), u32>>,
}

impl NaiveIndex {
    /// Adds one reference of each of `blocks`. A hash names its whole prefix, so the parent does not matter.
    pub fn store(
        &mut self,
        slot: Slot,
        tier: Tier,
        _parent: Option<SequenceHash>,
        blocks: &[SequenceHash],
    ) -> StoreOutcome {
        for block in blocks {
            *self.blocks.entry(*block).or_default().entry((slot, tier)).or_default() += 1;
        }
        StoreOutcome { added: u32::try_from(blocks.len()).unwrap_or(u32::MAX), evicted_blocks: 0 }
    }

    /// Takes one reference away; `false` when there was none.
    pub fn remove(&mut self, slot: Slot, tier: Tier, block: SequenceHash) -> bool {
        let Some(holders) = self.blocks.get_mut(&block) else { return false };
        let Some(count) = holders.get_mut(&(slot, tier)) else { return false };
        *count -= 1;
        if *count == 0 {
            holders.remove(&(slot, tier));
        }
        if holders.is_empty() {
            self.blocks.remove(&block);
        }
        true
    }

    /// Drops everything `slot` holds on `tier` (`None`: on every tier).
    pub fn clear(&mut self, slot: Slot, tier: Option<Tier>) {
        self.retain(|of, on, _| of != slot || tier.is_some_and(|tier| tier != on));
    }

    /// Keeps the triples that `keep(slot, tier, block)` is true for.
    pub fn retain(&mut self, keep: impl Fn(Slot, Tier, SequenceHash) -> bool) {
        self.blocks.retain(|block, holders| {
            holders.retain(|(slot, tier), _| keep(*slot, *tier, *block));
            !holders.is_empty()
        });
    }

    /// Whether any target holds `block`.
    pub fn knows(&self, block: SequenceHash) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Whether `slot` holds `block` on `tier`.
    pub fn holds(&self, slot: Slot, tier: Tier, block: SequenceHash) -> bool {
        self.blocks.get(&block).is_some_and(|holders| holders.contains_key(&(slot, tier)))
    }

    /// Overlap of every target with `chain`, block by block.
    pub fn overlaps(&self, chain: &[SequenceHash]) -> Overlaps {
        let first = chain.first().and_then(|block| self.blocks.get(block));
        let mut slots: Vec<Slot> =
            first.map(|holders| holders.keys().map(|(slot, _)| *slot).collect()).unwrap_or_default();
        slots.dedup();
        let prefix = |slot: Slot, tiers: &[Tier]| {
            let held = |block: &&SequenceHash| tiers.iter().any(|tier| self.holds(slot, *tier, **block));
            chain.iter().take_while(held).count() as u32
        };
        let overlap = |slot| {
            let device = prefix(slot, &[Tier::Device]);
            let host = prefix(slot, &[Tier::Device, Tier::Host]);
            let all = prefix(slot, &Tier::ALL);
            Overlap { device, host: host - device, disk: all - host }
        };
        Overlaps(slots.into_iter().map(|slot| (slot, overlap(slot))).collect())
    }

    /// Calls `visit(slot, tier, block)` for every triple present, in no particular order.
    pub fn for_each_holder(&self, mut visit: impl FnMut(Slot, Tier, SequenceHash)) {
        for (block, holders) in &self.blocks {
            for (slot, tier) in holders.keys() {
                visit(*slot, *tier, *block);
            }
        }
    }
}
