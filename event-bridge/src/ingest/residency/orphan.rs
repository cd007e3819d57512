//! Pages whose parents were never announced, kept until the parent appears (it may never: a cache hit announces nothing).

use std::collections::{BTreeMap, VecDeque};

use kv_routing::block::{HashSeed, TokenId};

use kv_routing::target::Tier;

use super::map::{EngineMap, Keyed};
use super::page::Page;
use crate::engine::EngineHash;

/// One page that waits.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) parent: EngineHash,
    pub(super) tokens: Box<[TokenId]>,
    pub(super) images: Box<[u64]>,
    /// Seed by its own event; its parent's chain may know of a salt that the event does not repeat.
    pub(super) seed: HashSeed,
    /// Holds its references; the content means nothing yet.
    pub(super) page: Page,
}

/// Largest page seen on each tier, in tokens: the usual one there.
pub(super) type UsualPages = [u32; 3];

/// How many orphans a bound has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dropped {
    pub(super) all: u64,
    /// Those that were pages of their tier's usual size.
    pub(super) usual: u64,
}

/// Bounds of a group's orphans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) pages: usize,
    pub(super) tokens: usize,
}

/// All waiting pages of a group.
#[derive(Debug)]
pub(super) struct Orphans {
    pages: EngineMap<Orphan>,
    children: EngineMap<Vec<EngineHash>>,
    /// Oldest first; names of orphans that are gone are skipped.
    order: VecDeque<EngineHash>,
    tokens: usize,
    /// How many have so many tokens, by tier.
    sizes: BTreeMap<usize, [u32; 3]>,
}

impl Orphans {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            pages: EngineMap::new(keyed),
            children: EngineMap::new(keyed),
            order: VecDeque::new(),
            tokens: 0,
            sizes: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Estimated bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let names = (self.pages.len() + self.order.capacity()) * size_of::<EngineHash>();
        self.pages.bytes() + self.children.bytes() + names + self.tokens * size_of::<TokenId>()
    }

    /// Whether one of them is a page of its tier's usual size. Engines name the units of unfinished pages, whose parents they
    /// never announce; nothing is missed with those.
    pub(super) fn matter(&self, usual: &UsualPages) -> bool {
        let least = usual.iter().min().map_or(0, |least| *least as usize);
        self.sizes.range(least..).any(|(tokens, counts)| {
            counts.iter().zip(usual).any(|(count, usual)| *count > 0 && *tokens >= *usual as usize)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn get(&self, hash: EngineHash) -> Option<&Orphan> {
        self.pages.get(&hash)
    }

    /// One reference more to a page that waits; `false` when it does not.
    pub(super) fn hold(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some(orphan) = self.pages.get_mut(&hash) else { return false };
        let (is_first, tokens) = (orphan.page.hold(tier), orphan.tokens.len());
        if is_first {
            self.count(tokens, tier, 1);
        }
        true
    }

    /// One reference less; without any the page waits no longer. `false` when it is not on that tier.
    pub(super) fn release(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some(orphan) = self.pages.get_mut(&hash) else { return false };
        let Some(was_last) = orphan.page.release(tier) else { return false };
        let (is_gone, tokens) = (orphan.page.is_gone(), orphan.tokens.len());
        if was_last {
            self.count(tokens, tier, -1);
        }
        if is_gone {
            self.remove(hash);
        }
        true
    }

    fn count(&mut self, tokens: usize, tier: Tier, change: i32) {
        let counts = self.sizes.entry(tokens).or_default();
        if let Some(count) = counts.get_mut(usize::from(tier.index())) {
            *count = count.saturating_add_signed(change);
        }
        if *counts == [0; 3] {
            self.sizes.remove(&tokens);
        }
    }

    /// Whether anything waits for `parent`.
    pub(super) fn awaits(&self, parent: EngineHash) -> bool {
        self.children.contains_key(&parent)
    }

    /// Keeps a page; within the bounds the oldest ones go.
    pub(super) fn keep(&mut self, hash: EngineHash, orphan: Orphan, most: Most, usual: &UsualPages) -> Dropped {
        self.tokens += orphan.tokens.len();
        for tier in Tier::ALL.into_iter().filter(|tier| orphan.page.is_on(*tier)) {
            self.count(orphan.tokens.len(), tier, 1);
        }
        if let Some(children) = self.children.get_or_insert_with(orphan.parent, Vec::new) {
            children.push(hash);
        }
        self.pages.insert(hash, orphan);
        self.order.push_back(hash);
        let mut dropped = Dropped::default();
        while self.pages.len() > most.pages || self.tokens > most.tokens {
            let Some(oldest) = self.order.pop_front() else { break };
            let Some(gone) = self.remove(oldest) else { continue };
            dropped.all += 1;
            let is_usual = |(tier, usual): (Tier, &u32)| gone.page.is_on(tier) && gone.tokens.len() >= *usual as usize;
            dropped.usual += u64::from(Tier::ALL.into_iter().zip(usual).any(is_usual));
        }
        if self.order.len() > 2 * self.pages.len() + 64 {
            self.order.retain(|hash| self.pages.contains_key(hash));
        }
        dropped
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, hash: EngineHash) -> Option<Orphan> {
        let orphan = self.take(hash)?;
        if let Some(siblings) = self.children.get_mut(&orphan.parent) {
            siblings.retain(|sibling| *sibling != hash);
            if siblings.is_empty() {
                self.children.remove(&orphan.parent);
            }
        }
        Some(orphan)
    }

    /// Takes out everything that waits for `parent`.
    pub(super) fn take_children(&mut self, parent: EngineHash) -> Vec<(EngineHash, Orphan)> {
        let children = self.children.remove(&parent).unwrap_or_default();
        let mut taken = Vec::with_capacity(children.len());
        for hash in children {
            taken.extend(self.take(hash).map(|orphan| (hash, orphan)));
        }
        taken
    }

    fn take(&mut self, hash: EngineHash) -> Option<Orphan> {
        let orphan = self.pages.remove(&hash)?;
        let tokens = orphan.tokens.len();
        self.tokens = self.tokens.saturating_sub(tokens);
        for tier in Tier::ALL.into_iter().filter(|tier| orphan.page.is_on(*tier)) {
            self.count(tokens, tier, -1);
        }
        Some(orphan)
    }
}
