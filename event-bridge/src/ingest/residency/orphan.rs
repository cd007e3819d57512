//! Pages whose parents were never announced, kept until the parent appears (it may never: a cache hit announces nothing).

use std::collections::{BTreeMap, VecDeque};

use kv_routing::block::{HashSeed, TokenId};

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

/// All waiting pages of a group.
#[derive(Debug)]
pub(super) struct Orphans {
    pages: EngineMap<Orphan>,
    children: EngineMap<Vec<EngineHash>>,
    /// Oldest first; names of orphans that are gone are skipped.
    order: VecDeque<EngineHash>,
    tokens: usize,
    /// How many have so many tokens.
    sizes: BTreeMap<usize, u32>,
}

impl Orphans {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            pages: EngineMap::with_hasher(keyed),
            children: EngineMap::with_hasher(keyed),
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
        let entry =
            size_of::<(EngineHash, Orphan)>() + size_of::<(EngineHash, Vec<EngineHash>)>() + size_of::<EngineHash>();
        self.pages.len() * entry + self.tokens * size_of::<TokenId>()
    }

    /// Whether one of them is a page of the usual size. Engines name the units of unfinished pages, whose parents they
    /// never announce; nothing is missed with those.
    pub(super) fn matter(&self, usual_tokens: u32) -> bool {
        self.sizes.range(usual_tokens as usize..).next().is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn get_mut(&mut self, hash: EngineHash) -> Option<&mut Orphan> {
        self.pages.get_mut(&hash)
    }

    /// Whether anything waits for `parent`.
    pub(super) fn awaits(&self, parent: EngineHash) -> bool {
        self.children.contains_key(&parent)
    }

    /// Keeps a page; within the bounds the oldest ones go. Returns how many went.
    pub(super) fn keep(&mut self, hash: EngineHash, orphan: Orphan, most: usize, most_tokens: usize) -> u64 {
        self.tokens += orphan.tokens.len();
        *self.sizes.entry(orphan.tokens.len()).or_default() += 1;
        self.children.entry(orphan.parent).or_default().push(hash);
        self.pages.insert(hash, orphan);
        self.order.push_back(hash);
        let mut dropped = 0;
        while self.pages.len() > most || self.tokens > most_tokens {
            let Some(oldest) = self.order.pop_front() else { break };
            dropped += u64::from(self.remove(oldest).is_some());
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
        if let Some(count) = self.sizes.get_mut(&tokens) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.sizes.remove(&tokens);
            }
        }
        Some(orphan)
    }
}
