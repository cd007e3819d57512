//! What one target holds, by its events: pages and references by (group, tier, engine hash), and from them the target's
//! entries in the index.
//!
//! Engine hashes only link events. A page's own name is the sequence hash of the blocks it completes, computed from its
//! tokens behind its parent's. Pages of the pool's block size are blocks; smaller ones are put together ([`strip`]); larger
//! ones are several blocks, provided they hold a whole number of them.

mod apply;
mod blocks;
mod chain;
mod departed;
mod effects;
mod group;
mod keys;
mod map;
mod orphan;
mod page;
mod saved;
mod settle;
mod store;
mod strip;

#[cfg(test)]
mod tests;

use kv_routing::block::{HashSeed, SequenceHash};
use kv_routing::index::PrefixIndex;
use kv_routing::target::{Slot, Tier};

use self::chain::Place;
use self::effects::{Effects, Shared};
use self::group::Group;
use self::map::Keyed;
use self::orphan::Orphans;
use super::Reason;
use crate::engine::Stored;

pub(crate) use self::blocks::Blocks;

/// Bounds of one target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Pages with unknown parents.
    pub(crate) orphans: u32,
    /// Pages in all; beyond it the target is cleared, since an engine has only so much memory.
    pub(crate) pages: u32,
}

/// What happened; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) stored: u64,
    pub(crate) duplicates: u64,
    pub(crate) removed: u64,
    pub(crate) unknown_removals: u64,
    pub(crate) unindexable: u64,
    /// Of these the ones that the engine can use for prompts like ours, so that they are missing in the index.
    pub(crate) unindexed: u64,
    pub(crate) misaligned: u64,
    pub(crate) hash_conflicts: u64,
    pub(crate) remote: u64,
    pub(crate) other_groups: u64,
    pub(crate) orphans_dropped: u64,
    /// Orphans that were dropped, or had no room, although nothing else says what they hold.
    pub(crate) orphans_missed: u64,
    /// Blocks of which only names were announced.
    pub(crate) placeholders: u64,
    /// References given up because nobody knows whether they meant copies.
    pub(crate) doubtful_dropped: u64,
    /// Blocks whose engine hash covers the token behind them, too.
    pub(crate) lookahead: u64,
    /// Times that it held clearly more than the engine has room for.
    pub(crate) overcounted: u64,
    /// Blocks of groups other than 0 whose kind was not said, and groups that were another kind than taken for.
    pub(crate) kinds_unknown: u64,
    pub(crate) overflows: u64,
    pub(crate) clears: u64,
    /// Times that the index dropped some of its blocks for a bound.
    pub(crate) evicted: u64,
}

impl Counters {
    /// Counts blocks that an engine can use and the index does not have.
    fn miss(&mut self, blocks: u64) {
        self.unindexable += blocks;
        self.unindexed += blocks;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Residency {
    slot: Slot,
    keyed: Keyed,
    bounds: Bounds,
    groups: Vec<Membership>,
    next_ordinal: u8,
    shared: Shared,
    counters: Counters,
    /// Counters when everything was last forgotten.
    at_clear: Counters,
    /// Page size of the last store that could be used.
    page_tokens: Option<u32>,
    /// Sizes of lone pages that may have been partial ones, for want of a known size.
    lone_pages: Vec<u32>,
    /// Tiers other than the device's on which something was ever stored since the last clear.
    other_tiers: bool,
    /// Times that everything was forgotten.
    lives: u64,
}

/// One KV cache group.
#[derive(Debug)]
struct Membership {
    id: u32,
    kind: Kind,
}

/// What is indexed of a group.
#[derive(Debug)]
enum Kind {
    /// Full attention: its pages are parts of prefixes. Carries its ordinal among those.
    Full(u8, Box<Group>),
    /// Anything else: nothing, but its removals are expected.
    Other,
}

/// What an event needs beside the target's own state.
pub(crate) struct Context<'a> {
    pub(crate) index: &'a mut PrefixIndex,
    pub(crate) blocks: &'a mut Blocks,
}

/// What adapter and salt of a store make of its hashes; `None` when the engine names its adapter by number only.
pub(crate) fn hash_seed(event: &Stored<'_>) -> Option<HashSeed> {
    keys::seed(event).ok()
}

impl Residency {
    pub(crate) fn new(slot: Slot, secret: u64, bounds: Bounds) -> Self {
        Self::empty(slot, Keyed::new(secret), bounds)
    }

    fn empty(slot: Slot, keyed: Keyed, bounds: Bounds) -> Self {
        Self {
            slot,
            keyed,
            bounds,
            groups: Vec::new(),
            next_ordinal: 0,
            shared: Shared::default(),
            counters: Counters::default(),
            at_clear: Counters::default(),
            page_tokens: None,
            lone_pages: Vec::new(),
            other_tiers: false,
            lives: 0,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn page_tokens(&self) -> Option<u32> {
        self.page_tokens
    }

    /// Pages held, waiting ones included.
    pub(crate) fn pages(&self) -> usize {
        self.full_groups().map(|group| group.pages() + group.orphans.len()).sum()
    }

    /// Pages that wait for their parents.
    pub(crate) fn orphans(&self) -> usize {
        self.full_groups().map(|group| group.orphans.len()).sum()
    }

    /// Whether every page stored since the last clear had a parent that was known, or none.
    pub(crate) fn knows_all_parents(&self) -> bool {
        self.orphans() == 0 && self.counters.orphans_dropped == self.at_clear.orphans_dropped
    }

    /// Grows when everything is forgotten.
    pub(crate) fn lives(&self) -> u64 {
        self.lives
    }

    /// Whether `block` was held a moment ago.
    pub(crate) fn had_lately(&self, block: SequenceHash) -> bool {
        self.shared.departed.contains(block)
    }

    /// The block before a store (`Some(None)`: it begins a chain); `None` where its pages do not begin with a block.
    pub(crate) fn behind(&self, event: &Stored<'_>) -> Option<Option<SequenceHash>> {
        if event.parent.is_none() {
            return Some(None);
        }
        let id = event.group.unwrap_or(0);
        let membership = self.groups.iter().find(|membership| membership.id == id)?;
        let Kind::Full(_, group) = &membership.kind else { return None };
        match group.behind(event.parent)? {
            Place::Boundary(before) => Some(before),
            Place::Inside(..) | Place::Nowhere => None,
        }
    }

    fn full_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter_map(|membership| match &membership.kind {
            Kind::Full(_, group) => Some(group.as_ref()),
            Kind::Other => None,
        })
    }

    /// Whether anything was stored elsewhere than on the device since the last clear.
    pub(crate) fn has_other_tiers(&self) -> bool {
        self.other_tiers
    }

    /// Why the index does not show everything this target holds, although every event was applied.
    pub(crate) fn fault(&self) -> Option<Reason> {
        let since = |pick: fn(&Counters) -> u64| pick(&self.counters) > pick(&self.at_clear);
        if since(|counters| counters.hash_conflicts) {
            Some(Reason::HashConflict)
        } else if since(|counters| counters.overcounted) {
            Some(Reason::Overcounted)
        } else if since(|counters| counters.misaligned) {
            Some(Reason::PageSize)
        } else if since(|counters| counters.evicted) {
            Some(Reason::IndexBound)
        } else if since(|counters| counters.orphans_missed)
            || self.full_groups().any(|group| group.orphans.matter(&group.usual))
        {
            Some(Reason::Orphans)
        } else if since(|counters| counters.doubtful_dropped) || self.full_groups().any(|group| group.in_doubt > 0) {
            Some(Reason::Duplicates)
        } else if since(|counters| counters.kinds_unknown) {
            Some(Reason::GroupKinds)
        } else if since(|counters| counters.unindexed) {
            Some(Reason::Unindexable)
        } else if since(|counters| counters.lookahead) {
            Some(Reason::Lookahead)
        } else if since(|counters| counters.placeholders) {
            Some(Reason::Placeholders)
        } else {
            None
        }
    }

    /// Estimated bytes of memory of the pages that wait for their parents.
    pub(crate) fn orphan_bytes(&self) -> usize {
        self.full_groups().map(|group| group.orphans.bytes()).sum()
    }

    /// Forgets the pages that wait for their parents.
    pub(crate) fn shed_orphans(&mut self) {
        for membership in &mut self.groups {
            let Kind::Full(_, group) = &mut membership.kind else { continue };
            let orphans = std::mem::replace(&mut group.orphans, Orphans::new(self.keyed));
            self.counters.orphans_dropped += orphans.len() as u64;
            self.counters.orphans_missed += if orphans.matter(&group.usual) { orphans.len() as u64 } else { 0 };
        }
    }

    /// Forgets everything because it is too much.
    pub(crate) fn overflow(&mut self, index: &mut PrefixIndex) {
        self.counters.overflows += 1;
        self.clear(index);
    }

    /// The index has dropped some of its blocks to stay within a bound.
    pub(crate) fn lose_to_bound(&mut self) {
        self.counters.evicted += 1;
    }

    /// Compares with the tokens that the engine says its device cache has room for. When clearly more are held, copies were
    /// counted that never were: those in doubt are given up.
    pub(crate) fn compare_capacity(&mut self, tokens: u64, context: &mut Context<'_>) {
        /// Blocks on their way in or out between two looks.
        const SLACK_BLOCKS: u64 = 64;
        let Some(size) = context.blocks.size() else { return };
        // With several groups a block is one of each, and how they share the memory is not known.
        if tokens == 0 || self.shared.groups(Tier::Device) != 1 {
            return;
        }
        let room = tokens + tokens / 10 + SLACK_BLOCKS * u64::from(size.tokens());
        if self.shared.device_blocks() * u64::from(size.tokens()) <= room {
            return;
        }
        let Self { slot, groups, shared, counters, .. } = self;
        for membership in groups {
            if let Kind::Full(ordinal, group) = &mut membership.kind {
                let mut effects =
                    Effects { index: &mut *context.index, slot: *slot, shared: &mut *shared, group: *ordinal };
                counters.doubtful_dropped += group.drop_doubtful(&mut effects);
            }
        }
        if self.shared.device_blocks() * u64::from(size.tokens()) > room {
            self.counters.overcounted += 1;
        }
    }

    /// Estimated bytes of memory of everything it knows of pages.
    pub(crate) fn bytes(&self) -> usize {
        self.full_groups().map(Group::bytes).sum()
    }

    /// Forgets everything it holds. Kinds of groups are kept: they belong to the model.
    pub(crate) fn clear(&mut self, index: &mut PrefixIndex) {
        for membership in &mut self.groups {
            if let Kind::Full(_, group) = &mut membership.kind {
                **group = Group::new(self.keyed);
            }
        }
        self.shared = Shared::default();
        self.other_tiers = false;
        self.lone_pages.clear();
        self.at_clear = self.counters;
        self.lives += 1;
        index.clear(self.slot, None);
    }
}
