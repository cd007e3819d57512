//! From one target's groups to the index.
//!
//! With one full-attention group a block is held when the group holds it. With several, an engine can use a block only
//! when every group has it, so a block enters the index with the last group and leaves it with the first.

use std::collections::HashMap;

use kv_routing::block::SequenceHash;
use kv_routing::index::PrefixIndex;
use kv_routing::target::{Slot, Tier};

use super::departed::Departed;

/// A set of groups, by their ordinal among the target's full-attention groups.
type GroupSet = u32;

/// Groups and what they hold in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Groups seen on each tier.
    seen: [GroupSet; 3],
    /// Who holds each block of a tier, kept only while the tier has several groups.
    holders: HashMap<(Tier, SequenceHash), Vec<(u8, u32)>>,
    /// Blocks on the device, as often as pages hold them.
    device_blocks: u64,
    /// What left the index lately.
    pub(super) departed: Departed,
}

/// Where a group's changes go.
pub(super) struct Effects<'a> {
    pub(super) index: &'a mut PrefixIndex,
    pub(super) slot: Slot,
    pub(super) shared: &'a mut Shared,
    /// Ordinal of the group whose changes these are.
    pub(super) group: u8,
}

impl Shared {
    /// Notes that `group` has something on `tier`. `true` when it is the second group or a later one there, so that
    /// what the others put into the index must be taken back and counted.
    pub(super) fn meet(&mut self, group: u8, tier: Tier) -> bool {
        let Some(seen) = self.seen.get_mut(usize::from(tier.index())) else { return false };
        let known = *seen;
        *seen |= 1 << (group % 32);
        known != 0 && *seen != known
    }

    /// Counts one block that `group` holds.
    pub(super) fn count(&mut self, group: u8, tier: Tier, block: SequenceHash) {
        let holders = self.holders.entry((tier, block)).or_default();
        match holders.iter_mut().find(|holder| holder.0 == group) {
            Some(holder) => holder.1 += 1,
            None => holders.push((group, 1)),
        }
    }

    /// Counts a block that a former bridge knew of.
    pub(super) fn restore(&mut self, tier: Tier) {
        self.device_blocks += u64::from(tier == Tier::Device);
    }

    pub(super) fn device_blocks(&self) -> u64 {
        self.device_blocks
    }

    /// Number of groups on `tier`.
    pub(super) fn groups(&self, tier: Tier) -> u32 {
        self.seen.get(usize::from(tier.index())).map_or(0, |seen| seen.count_ones())
    }
}

impl Effects<'_> {
    /// `blocks`, a piece of a chain behind `before`, are now held.
    pub(super) fn show(&mut self, tier: Tier, before: Option<SequenceHash>, blocks: &[SequenceHash]) {
        if tier == Tier::Device {
            self.shared.device_blocks += blocks.len() as u64;
        }
        if self.shared.groups(tier) <= 1 {
            self.index.store(self.slot, tier, before, blocks);
            return;
        }
        let mut parent = before;
        for block in blocks {
            if self.join(tier, *block) {
                self.index.store(self.slot, tier, parent, &[*block]);
            }
            parent = Some(*block);
        }
    }

    /// `block` is held no more.
    pub(super) fn hide(&mut self, tier: Tier, block: SequenceHash) {
        if tier == Tier::Device {
            self.shared.device_blocks = self.shared.device_blocks.saturating_sub(1);
        }
        if self.shared.groups(tier) <= 1 || self.leave(tier, block) {
            self.shared.departed.push(block);
            self.index.remove(self.slot, tier, block);
        }
    }

    /// Counts one reference of this group; `true` when every group has the block from now on.
    fn join(&mut self, tier: Tier, block: SequenceHash) -> bool {
        let wanted = self.shared.groups(tier) as usize;
        let holders = |shared: &Shared| shared.holders.get(&(tier, block)).map_or(0, Vec::len);
        let before = holders(self.shared);
        self.shared.count(self.group, tier, block);
        before < wanted && holders(self.shared) == wanted
    }

    /// Takes one reference of this group away; `true` when every group had the block until now.
    fn leave(&mut self, tier: Tier, block: SequenceHash) -> bool {
        let wanted = self.shared.groups(tier) as usize;
        let Some(holders) = self.shared.holders.get_mut(&(tier, block)) else { return false };
        let before = holders.len();
        if let Some(at) = holders.iter().position(|holder| holder.0 == self.group)
            && let Some(holder) = holders.get_mut(at)
        {
            holder.1 = holder.1.saturating_sub(1);
            if holder.1 == 0 {
                holders.swap_remove(at);
            }
        }
        let after = holders.len();
        if after == 0 {
            self.shared.holders.remove(&(tier, block));
        }
        before == wanted && after < before
    }
}
