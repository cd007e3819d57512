//! One KV cache group of one target: its pages, and what they mean in blocks.

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::target::Tier;

use super::Counters;
use super::chain::{Place, block_hash};
use super::effects::Effects;
use super::map::{EngineMap, Keyed};
use super::orphan::{Most, Orphan, Orphans, UsualPages};
use super::page::{Content, Fit, Page};
use super::strip::{Part, Strips};
use crate::engine::EngineHash;

/// See the module.
#[derive(Debug)]
pub(super) struct Group {
    /// Pages that are blocks.
    pub(super) blocks: EngineMap<Page>,
    /// Larger ones.
    pub(super) chunks: EngineMap<Page>,
    /// Smaller ones.
    pub(super) parts: EngineMap<Page>,
    /// All blocks of each chunk.
    wide: EngineMap<Box<[SequenceHash]>>,
    /// Their number.
    wide_blocks: usize,
    /// Seeds of chains with an adapter or a salt, by page; the pages inside strips have theirs there.
    pub(super) seeds: EngineMap<HashSeed>,
    pub(super) strips: Strips,
    pub(super) orphans: Orphans,
    pub(super) usual: UsualPages,
    /// Pages in doubt, once per tier.
    pub(super) in_doubt: usize,
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
            blocks: EngineMap::new(keyed),
            chunks: EngineMap::new(keyed),
            parts: EngineMap::new(keyed),
            wide: EngineMap::new(keyed),
            wide_blocks: 0,
            seeds: EngineMap::new(keyed),
            strips: Strips::default(),
            orphans: Orphans::new(keyed),
            usual: UsualPages::default(),
            in_doubt: 0,
        }
    }

    /// Pages held, without those that wait.
    pub(super) fn pages(&self) -> usize {
        self.blocks.len() + self.chunks.len() + self.parts.len()
    }

    pub(super) fn table(&self, fit: Fit) -> &EngineMap<Page> {
        match fit {
            Fit::Block => &self.blocks,
            Fit::Chunk => &self.chunks,
            Fit::Part => &self.parts,
        }
    }

    fn table_mut(&mut self, fit: Fit) -> &mut EngineMap<Page> {
        match fit {
            Fit::Block => &mut self.blocks,
            Fit::Chunk => &mut self.chunks,
            Fit::Part => &mut self.parts,
        }
    }

    /// Among which pages `hash` is on `tier`.
    pub(super) fn on(&self, hash: EngineHash, tier: Tier) -> Option<Fit> {
        Fit::ALL.into_iter().find(|fit| self.table(*fit).get(&hash).is_some_and(|page| page.is_on(tier)))
    }

    /// Whether `hash` is on `tier` with another size than `fit`, so that its removal could mean either.
    pub(super) fn is_ambiguous(&self, hash: EngineHash, fit: Fit, tier: Tier) -> bool {
        let on = |other: Fit| self.table(other).get(&hash).is_some_and(|page| page.is_on(tier));
        Fit::ALL.into_iter().any(|other| other != fit && !self.table(other).is_empty() && on(other))
    }

    /// Notes that pages of `tokens` tokens are stored on `tier`.
    pub(super) fn meet(&mut self, tier: Tier, tokens: u32) {
        if let Some(usual) = self.usual.get_mut(usize::from(tier.index())) {
            *usual = (*usual).max(tokens);
        }
    }

    /// Estimated bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let wide = self.wide_blocks * size_of::<SequenceHash>();
        let pages = self.blocks.bytes() + self.chunks.bytes() + self.parts.bytes();
        pages + self.seeds.bytes() + self.wide.bytes() + wide + self.strips.bytes() + self.orphans.bytes()
    }

    /// Where the chain goes on behind `parent`; `None` when the page is not known.
    pub(super) fn behind(&self, parent: Option<EngineHash>) -> Option<Place> {
        let Some(parent) = parent else { return Some(Place::Boundary(None)) };
        let mut found = None;
        for fit in Fit::ALL {
            let Some(page) = self.table(fit).get(&parent) else { continue };
            match page.content() {
                Content::Block(hash) | Content::Wide(hash) => return Some(Place::Boundary(Some(hash))),
                Content::Part(strip, index) => return Some(self.behind_part(strip, index)),
                // Another page of that name may say more.
                Content::Dead => found = Some(Place::Nowhere),
            }
        }
        found
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
        let mut pages = Fit::ALL.into_iter().filter_map(|fit| self.table(fit).get(&parent));
        let page = pages.find(|page| page.is_seeded())?;
        match page.content() {
            Content::Part(strip, _) => self.strips.get(strip).map(|strip| strip.seed),
            _ => self.seeds.get(&parent).copied(),
        }
    }

    /// Whether a known page stands somewhere else than at `place`: its engine's hashes do not name whole prefixes.
    pub(super) fn is_elsewhere(&self, hash: EngineHash, place: Place) -> bool {
        let Some(Content::Part(id, index)) = self.parts.get(&hash).map(Page::content) else { return false };
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
        for page in self.blocks.values().filter(|page| page.is_on(tier)) {
            if let Content::Block(block) = page.content() {
                visit(block);
            }
        }
        for (hash, _) in self.chunks.iter().filter(|(_, page)| page.is_on(tier)) {
            self.wide.get(hash).into_iter().flatten().for_each(|block| visit(*block));
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
        self.table_mut(Fit::of(tokens.len(), size)).insert(hash, Page::new(content, seeded));
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
        self.wide_blocks += blocks.len();
        let former = self.wide.insert(hash, blocks.into());
        self.wide_blocks -= former.map_or(0, |blocks| blocks.len());
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
        let most = Most { pages: most, tokens: most * TOKENS };
        let dropped = self.orphans.keep(page.hash, orphan, most, &self.usual);
        counters.orphans_dropped += dropped.all;
        counters.orphans_missed += dropped.usual;
    }

    /// One reference more; `false` when the page is not known.
    pub(super) fn hold(
        &mut self,
        hash: EngineHash,
        fit: Fit,
        tier: Tier,
        before: Option<SequenceHash>,
        effects: &mut Effects<'_>,
    ) -> bool {
        let Some(page) = self.table_mut(fit).get_mut(&hash) else { return false };
        let is_first = page.hold(tier);
        let content = page.content();
        self.assure(hash, fit, tier);
        if is_first {
            self.appear(hash, content, tier, before, effects);
        }
        true
    }

    /// The page was just announced, so it is on `tier`.
    pub(super) fn assure(&mut self, hash: EngineHash, fit: Fit, tier: Tier) {
        if self.in_doubt == 0 {
            return;
        }
        if let Some(page) = self.table_mut(fit).get_mut(&hash).filter(|page| page.is_in_doubt(tier)) {
            page.settle_doubt(tier);
            self.in_doubt -= 1;
        }
    }

    /// The page was announced again, which need not mean another copy.
    pub(super) fn repeat(&mut self, hash: EngineHash, fit: Fit) {
        if let Some(page) = self.table_mut(fit).get_mut(&hash) {
            page.repeat();
        }
    }

    /// Among which pages `hash` is known at all.
    pub(super) fn known(&self, hash: EngineHash) -> Option<Fit> {
        Fit::ALL.into_iter().find(|fit| self.table(*fit).contains_key(&hash))
    }

    /// Notes that `hash` is a page of unusable content.
    pub(super) fn bury(&mut self, hash: EngineHash, fit: Fit) {
        self.orphans.remove(hash);
        self.table_mut(fit).insert(hash, Page::new(Content::Dead, false));
    }

    /// Gives a page the references it had as an orphan.
    pub(super) fn give(
        &mut self,
        (hash, fit): (EngineHash, Fit),
        orphan: &Page,
        before: Option<SequenceHash>,
        effects: &mut Effects<'_>,
    ) {
        for tier in Tier::ALL.into_iter().filter(|tier| orphan.is_on(*tier)) {
            let Some(page) = self.table_mut(fit).get_mut(&hash) else { return };
            let is_first = !page.is_on(tier);
            page.add_refs(orphan, tier);
            let content = page.content();
            if is_first {
                self.appear(hash, content, tier, before, effects);
            }
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
        let Some(fit) = self.on(hash, tier) else { return self.orphans.release(hash, tier) };
        let Some(page) = self.table_mut(fit).get_mut(&hash) else { return false };
        let was_in_doubt = page.is_in_doubt(tier);
        let Some(was_last) = page.release(tier) else { return false };
        let is_in_doubt = if was_last {
            page.settle_doubt(tier);
            false
        } else {
            page.doubt(tier)
        };
        let page = *page;
        self.in_doubt = self.in_doubt + usize::from(is_in_doubt) - usize::from(was_in_doubt);
        if was_last {
            self.vanish(hash, fit, page, tier, effects);
        }
        true
    }

    /// Gives up every reference in doubt. Returns how many pages that were.
    pub(super) fn drop_doubtful(&mut self, effects: &mut Effects<'_>) -> u64 {
        let mut doubtful = Vec::new();
        for fit in Fit::ALL {
            for (hash, page) in self.table(fit).iter() {
                doubtful.extend(Tier::ALL.into_iter().filter(|tier| page.is_in_doubt(*tier)).map(|tier| (*hash, tier)));
            }
        }
        for (hash, tier) in &doubtful {
            while self.on(*hash, *tier).is_some() && self.release(*hash, *tier, effects) {}
        }
        doubtful.len() as u64
    }

    /// The page is on `tier` no more; once it is on none it is forgotten.
    fn vanish(&mut self, hash: EngineHash, fit: Fit, page: Page, tier: Tier, effects: &mut Effects<'_>) {
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
            self.table_mut(fit).remove(&hash);
            if fit == Fit::Chunk {
                let blocks = self.wide.remove(&hash);
                self.wide_blocks -= blocks.map_or(0, |blocks| blocks.len());
            }
            // Another page of that name ends the same chain.
            if page.is_seeded() && self.known(hash).is_none() {
                self.seeds.remove(&hash);
            }
        }
    }
}

#[cfg(test)]
impl Group {
    /// [`Group::bytes`] by asking everything it counts.
    pub(super) fn counted_bytes(&self) -> usize {
        let wide: usize = self.wide.values().map(|blocks| size_of_val(&**blocks)).sum();
        let counted = (self.wide_blocks * size_of::<SequenceHash>(), self.strips.bytes());
        self.bytes() - counted.0 - counted.1 + wide + self.strips.counted_bytes()
    }
}
