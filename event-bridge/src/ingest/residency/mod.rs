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
use kv_routing::target::Slot;

use self::chain::Place;
use self::effects::Shared;
use self::group::Group;
use self::map::Keyed;
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
    pub(crate) misaligned: u64,
    pub(crate) hash_conflicts: u64,
    pub(crate) remote: u64,
    pub(crate) other_groups: u64,
    pub(crate) orphans_dropped: u64,
    pub(crate) overflows: u64,
    pub(crate) clears: u64,
    /// Times that the index dropped some of its blocks for a bound.
    pub(crate) evicted: u64,
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
    /// Largest page seen, in tokens.
    largest_page: u32,
    /// Page size of the last store that could be used.
    page_tokens: Option<u32>,
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
            largest_page: 0,
            page_tokens: None,
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
        self.full_groups().map(|group| group.pages.len() + group.orphans.len()).sum()
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
        } else if since(|counters| counters.misaligned) {
            Some(Reason::PageSize)
        } else if since(|counters| counters.evicted) {
            Some(Reason::IndexBound)
        } else if self.full_groups().any(|group| group.orphans.matter(self.largest_page)) {
            Some(Reason::Orphans)
        } else {
            None
        }
    }

    /// The index has dropped some of its blocks to stay within a bound.
    pub(crate) fn lose_to_bound(&mut self) {
        self.counters.evicted += 1;
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
        self.at_clear = self.counters;
        self.lives += 1;
        index.clear(self.slot, None);
    }
}
