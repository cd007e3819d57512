//! Storing pages whose tokens are known.

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::target::Tier;

use super::chain::{Place, block_hash};
use super::effects::Effects;
use super::group::{Group, NewPage};
use super::page::{Content, Fit, Page};
use super::{Counters, keys};
use crate::engine::{EngineHash, Stored};

/// One store event on its way into a group.
pub(super) struct StoreRun<'a, 'b> {
    pub(super) group: &'a mut Group,
    pub(super) effects: &'a mut Effects<'b>,
    pub(super) counters: &'a mut Counters,
    pub(super) tier: Tier,
    pub(super) size: BlockSize,
    pub(super) page_tokens: usize,
    pub(super) seed: HashSeed,
    pub(super) most_orphans: u32,
}

/// Blocks that became present one after another and enter the index in one piece.
#[derive(Default)]
struct Piece {
    before: Option<SequenceHash>,
    blocks: Vec<SequenceHash>,
}

impl StoreRun<'_, '_> {
    pub(super) fn store(&mut self, event: &Stored<'_>) {
        let Some(tokens) = event.tokens.ids() else { return };
        if let Some(seed) = self.group.seed_of(event.parent) {
            self.seed = seed;
        }
        match self.group.behind(event.parent) {
            Some(Place::Boundary(before)) if self.page_tokens == self.size.tokens() as usize => {
                self.store_blocks(event, tokens, before);
            }
            place => self.store_pages(event, tokens, place),
        }
    }

    /// The common case: pages that are blocks, at a block's start.
    fn store_blocks(&mut self, event: &Stored<'_>, tokens: &[TokenId], mut before: Option<SequenceHash>) {
        let mut piece = Piece { before, blocks: Vec::with_capacity(event.hashes.len()) };
        let seeded = self.seed != HashSeed::default();
        for (at, (hash, tokens)) in event.hashes.iter().zip(tokens.chunks_exact(self.page_tokens)).enumerate() {
            let mut keys = keys::of_block(event, at);
            if keys.unknown {
                self.flush(&mut piece, before);
                return self.store_dead(event.hashes.get(at..).unwrap_or_default());
            }
            let block = block_hash(before, tokens, &mut keys.images, self.seed);
            let mut is_new = false;
            let page = self.group.blocks.get_or_insert_with(*hash, || {
                is_new = true;
                Page::new(Content::Block(block), seeded)
            });
            let Some(page) = page else { continue };
            let is_first = page.hold(self.tier);
            let content = page.content();
            self.note(*hash, Fit::Block, is_first, event);
            if is_new && seeded {
                self.group.seeds.insert(*hash, self.seed);
            }
            match content {
                Content::Block(known) if known == block && is_first => piece.blocks.push(block),
                other => {
                    self.flush(&mut piece, Some(block));
                    self.meet_again(*hash, other, is_first, block, before);
                }
            }
            before = Some(block);
            if is_new && !self.group.orphans.is_empty() {
                self.flush(&mut piece, Some(block));
                self.attach(*hash);
            }
        }
        self.flush(&mut piece, None);
    }

    /// A page that was known. Should it be another block by its tokens than by its name, it stays what it was.
    fn meet_again(
        &mut self,
        hash: EngineHash,
        content: Content,
        is_first: bool,
        block: SequenceHash,
        before: Option<SequenceHash>,
    ) {
        self.counters.hash_conflicts += u64::from(!matches!(content, Content::Block(known) if known == block));
        if is_first {
            self.group.appear(hash, content, self.tier, before, self.effects);
        }
    }

    /// Notes what a store says of a page beside its place.
    fn note(&mut self, hash: EngineHash, fit: Fit, is_first: bool, event: &Stored<'_>) {
        self.group.assure(hash, fit, self.tier);
        if is_first {
            self.counters.hash_conflicts += u64::from(self.group.is_ambiguous(hash, fit, self.tier));
            return;
        }
        self.counters.duplicates += 1;
        if event.may_repeat {
            self.group.repeat(hash, fit);
        }
    }

    fn flush(&mut self, piece: &mut Piece, next_before: Option<SequenceHash>) {
        if !piece.blocks.is_empty() {
            self.effects.show(self.tier, piece.before, &piece.blocks);
            piece.blocks.clear();
        }
        piece.before = next_before;
    }

    /// Pages of any size at any place, or at none.
    fn store_pages(&mut self, event: &Stored<'_>, tokens: &[TokenId], mut place: Option<Place>) {
        let mut parent = event.parent;
        for (at, (hash, tokens)) in event.hashes.iter().zip(tokens.chunks_exact(self.page_tokens)).enumerate() {
            let mut keys = keys::of_block(event, at);
            if keys.unknown {
                return self.store_dead(event.hashes.get(at..).unwrap_or_default());
            }
            let page = NewPage { hash: *hash, tokens, images: &mut keys.images, seed: self.seed };
            place = self.store_page(page, parent, place, event);
            parent = Some(*hash);
        }
    }

    /// Stores one page; returns the place behind it, if that is known.
    fn store_page(
        &mut self,
        page: NewPage<'_>,
        parent: Option<EngineHash>,
        place: Option<Place>,
        event: &Stored<'_>,
    ) -> Option<Place> {
        let (hash, fit) = (page.hash, Fit::of(page.tokens.len(), self.size));
        let is_on = self.group.table(fit).get(&hash).map(|known| known.is_on(self.tier));
        if let Some(is_on) = is_on {
            self.note(hash, fit, !is_on, event);
            let moved = place.is_some_and(|place| self.group.is_elsewhere(hash, place));
            self.counters.hash_conflicts += u64::from(moved);
            let before = place.and_then(Place::block_before);
            self.group.hold(hash, fit, self.tier, before, self.effects);
            return self.group.behind(Some(hash));
        }
        match (place, parent) {
            (Some(place), _) => {
                let behind = self.group.place(place, page, self.size, self.counters);
                self.note(hash, fit, true, event);
                self.group.hold(hash, fit, self.tier, place.block_before(), self.effects);
                self.attach(hash);
                Some(behind)
            }
            (None, Some(parent)) => {
                match self.group.orphans.get(hash).map(|orphan| orphan.tokens.len() == page.tokens.len()) {
                    Some(true) => {
                        self.group.orphans.hold(hash, self.tier);
                        self.counters.duplicates += 1;
                    }
                    // Only one page of a name can wait.
                    Some(false) => self.counters.orphans_missed += 1,
                    None => self.group.adopt(parent, page, self.tier, self.most_orphans, self.counters),
                }
                None
            }
            (None, None) => None,
        }
    }

    /// Pages behind something that cannot be named.
    fn store_dead(&mut self, hashes: &[EngineHash]) {
        self.counters.miss(hashes.len() as u64);
        let fit = Fit::of(self.page_tokens, self.size);
        for hash in hashes {
            store_dead(self.group, *hash, fit, self.tier, self.effects);
        }
    }

    /// Puts everything that waited for `parent` in its place.
    fn attach(&mut self, parent: EngineHash) {
        let mut open = vec![parent];
        while let Some(parent) = open.pop() {
            if !self.group.orphans.awaits(parent) {
                continue;
            }
            let Some(place) = self.group.behind(Some(parent)) else { continue };
            let inherited = self.group.seed_of(Some(parent));
            for (hash, orphan) in self.group.orphans.take_children(parent) {
                let mut images = orphan.images.into_vec();
                let seed = inherited.unwrap_or(orphan.seed);
                let page = NewPage { hash, tokens: &orphan.tokens, images: &mut images, seed };
                let fit = Fit::of(page.tokens.len(), self.size);
                if !self.group.table(fit).contains_key(&hash) {
                    self.group.place(place, page, self.size, self.counters);
                }
                self.group.give((hash, fit), &orphan.page, place.block_before(), self.effects);
                open.push(hash);
            }
        }
    }
}

/// A page whose content cannot be used is on a tier.
pub(super) fn store_dead(group: &mut Group, hash: EngineHash, fit: Fit, tier: Tier, effects: &mut Effects<'_>) {
    if !group.hold(hash, fit, tier, None, effects) {
        group.bury(hash, fit);
        group.hold(hash, fit, tier, None, effects);
    }
}
