//! Holdings to disk and back.

use std::collections::HashMap;

use kv_routing::block::SequenceHash;
use kv_routing::index::PrefixIndex;
use kv_routing::target::{Slot, Tier};

use super::group::Group;
use super::page::{Content, Page};
use super::{Context, Kind, Membership, Residency};
use crate::ingest::Reason;
use crate::ingest::saved::{SavedHoldings, SavedPage};

type Piece = (Option<SequenceHash>, Vec<SequenceHash>);

/// What is still to be put into the index.
#[derive(Default)]
struct Wanted {
    /// One reference per page, by tier and block.
    references: HashMap<(Tier, SequenceHash), u32>,
    /// Blocks the index dropped for its bound meanwhile.
    evicted: u32,
}

impl Residency {
    /// Everything it holds; `None` when that is not a matter of pages that are blocks of a single group. Pages that wait for
    /// their parents are left out: they are not in the index.
    pub(crate) fn save(&self, index: &mut PrefixIndex) -> Option<SavedHoldings> {
        let (mut full, mut other_groups) = (None, Vec::new());
        for Membership { id, kind } in &self.groups {
            match kind {
                Kind::Full(_, group) if full.is_none() => full = Some((*id, group)),
                Kind::Full(..) => return None,
                Kind::Other => other_groups.push(*id),
            }
        }
        use Reason::{Lookahead, Orphans, Placeholders, Unindexable};
        let (id, group) = full?;
        let may_be_saved = matches!(self.fault(), None | Some(Orphans | Placeholders | Lookahead | Unindexable));
        if !may_be_saved || !group.chunks.is_empty() || !group.parts.is_empty() {
            return None;
        }
        let mut pages = Vec::with_capacity(group.blocks.len());
        for (hash, page) in group.blocks.iter() {
            let block = match page.content() {
                Content::Block(block) => Some(block),
                Content::Dead => None,
                Content::Wide(_) | Content::Part(..) => return None,
            };
            let seed = if page.is_seeded() { Some(*group.seeds.get(hash)?) } else { None };
            pages.push(SavedPage { hash: *hash, block, refs: page.refs(), seed });
        }
        let mut pieces = Vec::new();
        index.for_each_piece(self.slot, |parent, blocks| pieces.push((parent, blocks.to_vec())));
        let page_tokens = self.page_tokens?;
        Some(SavedHoldings { group: id, other_groups, page_tokens, other_tiers: self.other_tiers, pages, pieces })
    }

    /// Takes over what was saved, into an empty residency. `false`, and nothing is held, when it contradicts itself or does
    /// not fit the index.
    pub(crate) fn restore(&mut self, saved: &SavedHoldings, context: &mut Context<'_>) -> bool {
        if !self.groups.is_empty() || saved.pages.len() > self.bounds.pages as usize {
            return false;
        }
        let mut group = Box::new(Group::new(self.keyed));
        let mut wanted = Wanted::default();
        for SavedPage { hash, block, refs, seed } in &saved.pages {
            let content = block.map_or(Content::Dead, Content::Block);
            let mut page = Page::with_refs(content, seed.is_some(), *refs);
            if refs.iter().any(|refs| *refs > 1) {
                // Whether they meant copies is not saved.
                page.repeat();
            }
            for tier in Tier::ALL.into_iter().filter(|tier| page.is_on(*tier)) {
                self.shared.meet(0, tier);
                group.meet(tier, saved.page_tokens);
                if let Some(block) = block {
                    self.shared.restore(tier);
                    *wanted.references.entry((tier, *block)).or_default() += 1;
                }
            }
            group.seeds.extend(seed.map(|seed| (*hash, seed)));
            group.blocks.insert(*hash, page);
        }
        if group.blocks.len() != saved.pages.len() {
            *self = Self::empty(self.slot, self.keyed, self.bounds);
            return false;
        }
        self.groups.push(Membership { id: saved.group, kind: Kind::Full(0, group) });
        self.groups.extend(saved.other_groups.iter().map(|id| Membership { id: *id, kind: Kind::Other }));
        self.next_ordinal = 1;
        self.other_tiers = saved.other_tiers;
        self.page_tokens = Some(saved.page_tokens);
        for piece in &saved.pieces {
            for tier in Tier::ALL {
                while wanted.store_once(tier, piece, context.index, self.slot) > 0 {}
            }
        }
        let fits = wanted.evicted == 0 && wanted.references.is_empty();
        if !fits {
            context.index.clear(self.slot, None);
            *self = Self::empty(self.slot, self.keyed, self.bounds);
        }
        fits
    }
}

impl Wanted {
    /// Stores one reference of every block of a piece that is still wanted on `tier`; returns how many there were.
    fn store_once(&mut self, tier: Tier, (parent, blocks): &Piece, index: &mut PrefixIndex, slot: Slot) -> usize {
        let (mut before, mut run, mut stored) = (*parent, Vec::new(), 0);
        let mut flush = |before: Option<SequenceHash>, run: &mut Vec<SequenceHash>| {
            if !run.is_empty() {
                stored += run.len();
                self.evicted += index.store(slot, tier, before, run).evicted_blocks;
                run.clear();
            }
        };
        for block in blocks {
            if take(&mut self.references, (tier, *block)) {
                run.push(*block);
            } else {
                flush(before, &mut run);
                before = Some(*block);
            }
        }
        flush(before, &mut run);
        stored
    }
}

fn take(references: &mut HashMap<(Tier, SequenceHash), u32>, key: (Tier, SequenceHash)) -> bool {
    let Some(count) = references.get_mut(&key) else { return false };
    *count -= 1;
    if *count == 0 {
        references.remove(&key);
    }
    true
}
