//! One KV cache group of one target: its pages, and what they mean in blocks.

use std::collections::HashMap;

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::target::Tier;

use super::Counters;
use super::chain::{Place, block_hash};
use super::effects::Effects;
use super::map::{EngineMap, Keyed};
use super::orphan::{Orphan, Orphans};
use super::page::{Content, Page};
use super::strip::{Part, Strips};
use crate::engine::EngineHash;

/// See the module.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) pages: EngineMap<Page>,
    /// All blocks of each page that has several.
    pub(super) wide: EngineMap<Box<[SequenceHash]>>,
    /// Seeds of chains with an adapter or a salt, by page; the pages inside strips have theirs there.
    pub(super) seeds: EngineMap<HashSeed>,
    pub(super) strips: Strips,
    pub(super) orphans: Orphans,
}

/// A page to be stored: tokens of one engine page and what goes with them.
pub(super) struct NewPage<'a> {
    pub(super) hash: EngineHash,
    pub(super) tokens: &'a [TokenId],
    pub(super) images: &'a mut Vec<u64>,
    pub(super) seed: HashSeed,
}

impl Group {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            pages: HashMap::with_hasher(keyed),
            wide: HashMap::with_hasher(keyed),
            seeds: HashMap::with_hasher(keyed),
            strips: Strips::default(),
            orphans: Orphans::new(keyed),
        }
    }

    /// Estimated bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        /// Of a table entry beside key and value.
        const ENTRY: usize = 1;
        let table = |capacity: usize, value: usize| capacity * (size_of::<EngineHash>() + value + ENTRY);
        table(self.pages.capacity(), size_of::<Page>())
            + table(self.seeds.capacity(), size_of::<HashSeed>())
            + self.wide.values().map(|blocks| table(1, 16) + blocks.len() * size_of::<SequenceHash>()).sum::<usize>()
            + self.strips.bytes()
            + self.orphans.bytes()
    }

    /// Where the chain goes on behind `parent`; `None` when the page is not known.
    pub(super) fn behind(&self, parent: Option<EngineHash>) -> Option<Place> {
        let Some(parent) = parent else { return Some(Place::Boundary(None)) };
        Some(match self.pages.get(&parent)?.content() {
            Content::Block(hash) | Content::Wide(hash) => Place::Boundary(Some(hash)),
            Content::Dead => Place::Nowhere,
            Content::Part(strip, index) => self.behind_part(strip, index),
        })
    }

    fn behind_part(&self, id: super::strip::StripId, index: u16) -> Place {
        let Some(strip) = self.strips.get(id) else { return Place::Nowhere };
        let is_last = usize::from(index) + 1 == strip.pages.len();
        match strip.block {
            Some(block) if is_last => Place::Boundary(Some(block)),
            _ => Place::Inside(id, index),
        }
    }

    /// The seed of `parent`'s chain when it is not the one a plain prompt has.
    pub(super) fn seed_of(&self, parent: Option<EngineHash>) -> Option<HashSeed> {
        let parent = parent?;
        let page = self.pages.get(&parent).filter(|page| page.seeded)?;
        match page.content() {
            Content::Part(strip, _) => self.strips.get(strip).map(|strip| strip.seed),
            _ => self.seeds.get(&parent).copied(),
        }
    }

    /// Whether a known page stands somewhere else than at `place`: its engine's hashes do not name whole prefixes.
    pub(super) fn is_elsewhere(&self, hash: EngineHash, place: Place) -> bool {
        let Some(Content::Part(id, index)) = self.pages.get(&hash).map(Page::content) else { return false };
        let Some(strip) = self.strips.get(id) else { return false };
        let stands = match (index.checked_sub(1), strip.base) {
            (Some(previous), _) => Place::Inside(id, previous),
            (None, Some((base, used))) => Place::Inside(base, used.saturating_sub(1)),
            (None, None) => Place::Boundary(strip.before),
        };
        stands != place
    }

    /// Calls `visit` for every block held on `tier`.
    pub(super) fn for_each_block(&self, tier: Tier, mut visit: impl FnMut(SequenceHash)) {
        for (hash, page) in self.pages.iter().filter(|(_, page)| page.is_on(tier)) {
            match page.content() {
                Content::Block(block) => visit(block),
                Content::Wide(_) => self.wide.get(hash).into_iter().flatten().for_each(|block| visit(*block)),
                Content::Part(..) | Content::Dead => {}
            }
        }
        self.strips.for_each_shown(tier, visit);
    }

    /// Makes a page out of tokens at `place`. It has no references yet.
    pub(super) fn place(&mut self, place: Place, page: NewPage<'_>, size: BlockSize, counters: &mut Counters) -> Place {
        let NewPage { hash, tokens, images, seed } = page;
        let block = size.tokens() as usize;
        let part = || Part { hash, tokens, images: &[], seed };
        let content = match place {
            Place::Nowhere => None,
            Place::Boundary(before) if tokens.len() == block => {
                Some(Content::Block(block_hash(before, tokens, images, seed)))
            }
            Place::Boundary(before) if tokens.len() < block => {
                let part = Part { images, ..part() };
                self.strips.begin(before, &part, size).map(|(strip, index)| Content::Part(strip, index))
            }
            Place::Boundary(before) if tokens.len() % block == 0 => {
                Some(self.widen(before, hash, tokens, images, seed, block))
            }
            Place::Boundary(_) => None,
            Place::Inside(strip, index) => {
                let part = Part { images, ..part() };
                self.strips.extend(strip, index, &part, size).map(|(strip, index)| Content::Part(strip, index))
            }
        };
        if content.is_none() && place != Place::Nowhere {
            counters.misaligned += 1;
        }
        let content = content.unwrap_or(Content::Dead);
        let seeded = content != Content::Dead && seed != HashSeed::default();
        if seeded && !matches!(content, Content::Part(..)) {
            self.seeds.insert(hash, seed);
        }
        self.pages.insert(hash, Page::new(content, seeded));
        self.behind(Some(hash)).unwrap_or(Place::Nowhere)
    }

    /// A page of several blocks. What images lie in which of them is not said, so they enter all.
    fn widen(
        &mut self,
        before: Option<SequenceHash>,
        hash: EngineHash,
        tokens: &[TokenId],
        images: &mut Vec<u64>,
        seed: HashSeed,
        block: usize,
    ) -> Content {
        let mut last = before;
        let mut blocks = Vec::with_capacity(tokens.len() / block);
        for piece in tokens.chunks_exact(block) {
            let next = block_hash(last, piece, images, seed);
            blocks.push(next);
            last = Some(next);
        }
        self.wide.insert(hash, blocks.into());
        last.map_or(Content::Dead, Content::Wide)
    }

    /// Keeps a page whose parent is not known.
    pub(super) fn adopt(
        &mut self,
        parent: EngineHash,
        page: NewPage<'_>,
        tier: Tier,
        most: u32,
        counters: &mut Counters,
    ) {
        /// Tokens kept per orphan allowed: engines' pages rarely have more.
        const TOKENS: usize = 64;
        let mut refs = Page::new(Content::Dead, false);
        refs.hold(tier);
        let orphan = Orphan {
            parent,
            tokens: page.tokens.into(),
            images: page.images.as_slice().into(),
            seed: page.seed,
            page: refs,
        };
        let most = most as usize;
        counters.orphans_dropped += self.orphans.keep(page.hash, orphan, most, most * TOKENS);
    }

    /// One reference more; `false` when the page is not known.
    pub(super) fn hold(
        &mut self,
        hash: EngineHash,
        tier: Tier,
        before: Option<SequenceHash>,
        effects: &mut Effects<'_>,
    ) -> bool {
        let Some(page) = self.pages.get_mut(&hash) else { return false };
        if page.hold(tier) {
            let content = page.content();
            self.appear(hash, content, tier, before, effects);
        }
        true
    }

    /// Gives a page that was just placed the references it had as an orphan.
    pub(super) fn give(
        &mut self,
        hash: EngineHash,
        orphan: &Page,
        before: Option<SequenceHash>,
        effects: &mut Effects<'_>,
    ) {
        let Some(page) = self.pages.get_mut(&hash) else { return };
        page.take_refs(orphan);
        let page = *page;
        for tier in Tier::ALL.into_iter().filter(|tier| page.is_on(*tier)) {
            self.appear(hash, page.content(), tier, before, effects);
        }
    }

    /// The page is on `tier` from now on.
    pub(super) fn appear(
        &mut self,
        hash: EngineHash,
        content: Content,
        tier: Tier,
        before: Option<SequenceHash>,
        effects: &mut Effects<'_>,
    ) {
        match content {
            Content::Block(block) => effects.show(tier, before, &[block]),
            Content::Wide(_) => {
                if let Some(blocks) = self.wide.get(&hash) {
                    effects.show(tier, before, blocks);
                }
            }
            Content::Part(strip, _) => {
                if let Some(strip) = self.strips.get_mut(strip) {
                    strip.arrive(tier);
                }
                self.settle(strip, tier, effects);
            }
            Content::Dead => {}
        }
    }

    /// One reference less. `false` when the page is not on that tier.
    pub(super) fn release(&mut self, hash: EngineHash, tier: Tier, effects: &mut Effects<'_>) -> bool {
        let Some(page) = self.pages.get_mut(&hash) else { return self.release_orphan(hash, tier) };
        let Some(was_last) = page.release(tier) else { return false };
        if was_last {
            let page = *page;
            self.vanish(hash, page, tier, effects);
        }
        true
    }

    fn release_orphan(&mut self, hash: EngineHash, tier: Tier) -> bool {
        let Some(orphan) = self.orphans.get_mut(hash) else { return false };
        let released = orphan.page.release(tier).is_some();
        if orphan.page.is_gone() {
            self.orphans.remove(hash);
        }
        released
    }

    /// The page is on `tier` no more; once it is on none it is forgotten.
    fn vanish(&mut self, hash: EngineHash, page: Page, tier: Tier, effects: &mut Effects<'_>) {
        match page.content() {
            Content::Block(block) => effects.hide(tier, block),
            Content::Wide(_) => {
                for block in self.wide.get(&hash).into_iter().flatten() {
                    effects.hide(tier, *block);
                }
            }
            Content::Part(strip, _) => {
                if let Some(strip) = self.strips.get_mut(strip) {
                    strip.depart(tier);
                }
                self.settle(strip, tier, effects);
                if page.is_gone() {
                    self.shrink(strip);
                }
                return;
            }
            Content::Dead => {}
        }
        if page.is_gone() {
            self.pages.remove(&hash);
            if page.seeded {
                self.seeds.remove(&hash);
            }
            if matches!(page.content(), Content::Wide(_)) {
                self.wide.remove(&hash);
            }
        }
    }
}
