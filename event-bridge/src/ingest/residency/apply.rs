//! Events to changes.

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::target::Tier;

use super::effects::Effects;
use super::group::Group;
use super::page::Fit;
use super::store::{StoreRun, store_dead};
use super::{Context, Kind, Membership, Residency, keys};
use crate::engine::{Event, Medium, Moved, Removed, SpecKind, Stored, Tokens, is_remote};

/// Groups a target can have; models have fewer than ten.
const MAX_GROUPS: usize = 32;

impl Residency {
    /// Applies one event.
    pub(crate) fn apply(&mut self, event: &Event<'_>, context: &mut Context<'_>) {
        match event {
            Event::Stored(stored) => self.store(stored, context),
            Event::Removed(removed) => self.remove(removed, context),
            Event::Moved(moved) => self.relocate(*moved, context),
            Event::Cleared => {
                self.counters.clears += 1;
                self.clear(context.index);
            }
        }
        if self.pages() > self.bounds.pages as usize {
            self.overflow(context.index);
        }
    }

    fn store(&mut self, event: &Stored<'_>, context: &mut Context<'_>) {
        let blocks = event.hashes.len() as u64;
        if blocks == 0 {
            return;
        }
        if is_remote(event.locality.as_deref()) {
            self.counters.remote += blocks;
            return;
        }
        let kind = event.kind.as_deref().map(SpecKind::of);
        let Some(at) = self.membership(event.group, kind, context) else {
            self.counters.other_groups += blocks;
            // Releases that number groups and do not say their kinds: group 0 may be anything then.
            self.counters.kinds_unknown += if kind.is_none() { blocks } else { 0 };
            return;
        };
        let Some(tier) = Medium::of(event.medium.as_deref()).tier() else {
            return self.counters.miss(blocks);
        };
        if tier != Tier::Device && context.blocks.size().is_none() {
            // What a block is only the device's own pages tell: offloaded chunks may be several.
            return self.counters.miss(blocks);
        }
        self.other_tiers |= tier != Tier::Device;
        self.counters.stored += blocks;
        self.share(at, tier, context);
        let usable = usable(event, tier, context);
        match usable {
            Some((size, page, _)) => {
                if tier == Tier::Device {
                    self.page_tokens = Some(page);
                }
                self.judge_lone_pages(size);
            }
            None if event.may_be_partial => self.note_lone_page(event),
            None if event.tokens.positions() == 0 => self.counters.placeholders += blocks,
            // A digest in place of tokens stands for what no prompt of ours is matched by.
            None if event.tokens.ids().is_none() => self.counters.unindexable += blocks,
            None => self.counters.miss(blocks),
        }
        let looks_ahead = matches!(event.tokens, Tokens::Pairs { .. }) || !event.lookahead.is_empty();
        self.counters.lookahead += if looks_ahead { blocks } else { 0 };
        let size = context.blocks.size();
        let Some(Membership { kind: Kind::Full(ordinal, group), .. }) = self.groups.get_mut(at) else { return };
        let (slot, group_ordinal) = (self.slot, *ordinal);
        let mut effects = Effects { index: &mut *context.index, slot, shared: &mut self.shared, group: group_ordinal };
        match usable {
            Some((size, page, seed)) => {
                group.meet(tier, page);
                let mut run = StoreRun {
                    group,
                    effects: &mut effects,
                    counters: &mut self.counters,
                    tier,
                    size,
                    page_tokens: page as usize,
                    seed,
                    most_orphans: self.bounds.orphans,
                };
                run.store(event);
            }
            None => store_unusable(group, event, size, tier, &mut effects),
        }
    }

    /// A lone page that may be a partial one was not used; whether it is the size will tell, once it is known.
    fn note_lone_page(&mut self, event: &Stored<'_>) {
        self.counters.unindexable += event.hashes.len() as u64;
        let tokens = event.tokens.positions() as u32;
        if !self.lone_pages.contains(&tokens) && self.lone_pages.len() < 64 {
            self.lone_pages.push(tokens);
        }
    }

    /// The size is known: lone pages of that size, or larger ones, were whole.
    fn judge_lone_pages(&mut self, size: BlockSize) {
        if self.lone_pages.drain(..).any(|tokens| tokens >= size.tokens()) {
            self.counters.misaligned += 1;
        }
    }

    fn remove(&mut self, event: &Removed<'_>, context: &mut Context<'_>) {
        let blocks = event.hashes.len() as u64;
        if is_remote(event.locality.as_deref()) {
            self.counters.remote += blocks;
            return;
        }
        let Some(at) = self.membership(event.group, None, context) else {
            self.counters.other_groups += blocks;
            return;
        };
        let tier = Medium::of(event.medium.as_deref()).tier();
        let tiers: &[Tier] = match &tier {
            _ if event.every_tier => &Tier::ALL,
            Some(tier) => std::slice::from_ref(tier),
            None => &[],
        };
        let Some((group, mut effects, counters)) = self.group(at, context) else { return };
        for hash in &event.hashes {
            let mut known = false;
            for tier in tiers {
                known |= group.release(*hash, *tier, &mut effects);
            }
            if known {
                counters.removed += 1;
            } else {
                counters.unknown_removals += 1;
            }
        }
    }

    fn relocate(&mut self, moved: Moved, context: &mut Context<'_>) {
        let tier = |level| Medium::of_level(level).tier();
        let (Some(from), Some(to)) = (tier(moved.from_level), tier(moved.to_level)) else {
            return self.counters.miss(1);
        };
        let Some(at) = self.membership(None, None, context) else { return };
        self.other_tiers |= to != Tier::Device;
        self.share(at, to, context);
        let Some((group, mut effects, counters)) = self.group(at, context) else { return };
        // Taken first: with its last reference gone the page would be forgotten.
        let fit = group.on(moved.hash, from).or_else(|| group.known(moved.hash));
        let known = match fit {
            Some(fit) => group.hold(moved.hash, fit, to, None, &mut effects),
            None => group.orphans.hold(moved.hash, to),
        };
        if !known || !group.release(moved.hash, from, &mut effects) {
            counters.unknown_removals += 1;
        }
    }

    /// Position of a full-attention group; `None` for any other. A kind once said is remembered, since removals do not
    /// repeat it. Where none was ever said, only group 0 is taken for full attention.
    fn membership(&mut self, id: Option<u32>, kind: Option<SpecKind>, context: &mut Context<'_>) -> Option<usize> {
        let id = id.unwrap_or(0);
        let is_full = kind.map(|kind| kind == SpecKind::Full);
        let at = match self.groups.iter().position(|membership| membership.id == id) {
            Some(at) => at,
            None if self.groups.len() == MAX_GROUPS => return None,
            None => {
                self.groups.push(Membership { id, kind: Kind::Other });
                self.groups.len() - 1
            }
        };
        let known = matches!(self.groups.get(at)?.kind, Kind::Full(..));
        match is_full {
            Some(false) if known => {
                // Taken for full attention so far, wrongly: its blocks are no prefixes.
                let others = self.full_groups().count() > 1;
                self.clear(context.index);
                self.counters.kinds_unknown += u64::from(others);
                self.groups.get_mut(at)?.kind = Kind::Other;
                None
            }
            Some(false) => None,
            _ if known => Some(at),
            None if id != 0 => None,
            _ => {
                let group = Box::new(Group::new(self.keyed));
                self.groups.get_mut(at)?.kind = Kind::Full(self.next_ordinal, group);
                self.next_ordinal = (self.next_ordinal + 1) % MAX_GROUPS as u8;
                Some(at)
            }
        }
    }

    /// Notes that group `at` has something on `tier`. When it is not the first to, the blocks of the others no longer
    /// count by themselves.
    fn share(&mut self, at: usize, tier: Tier, context: &mut Context<'_>) {
        let Some(Membership { kind: Kind::Full(ordinal, _), .. }) = self.groups.get(at) else { return };
        if !self.shared.meet(*ordinal, tier) {
            return;
        }
        context.index.clear(self.slot, Some(tier));
        if self.shared.groups(tier) > 2 {
            return;
        }
        for membership in &self.groups {
            if let Kind::Full(ordinal, group) = &membership.kind {
                group.for_each_block(tier, |block| self.shared.count(*ordinal, tier, block));
            }
        }
    }

    /// The parts that change when group `at` does.
    fn group<'a>(
        &'a mut self,
        at: usize,
        context: &'a mut Context<'_>,
    ) -> Option<(&'a mut Group, Effects<'a>, &'a mut super::Counters)> {
        let Membership { kind: Kind::Full(ordinal, group), .. } = self.groups.get_mut(at)? else { return None };
        let effects =
            Effects { index: &mut *context.index, slot: self.slot, shared: &mut self.shared, group: *ordinal };
        Some((group, effects, &mut self.counters))
    }
}

/// Block size, page size and seed of a store whose tokens say what its blocks are.
fn usable(event: &Stored<'_>, tier: Tier, context: &mut Context<'_>) -> Option<(BlockSize, u32, HashSeed)> {
    let tokens = event.tokens.ids()?.len();
    let page = match event.block_size {
        Some(size) => size as usize,
        None => tokens / event.hashes.len().max(1),
    };
    if page == 0 || tokens != event.hashes.len() * page {
        return None;
    }
    let seed = keys::seed(event).ok()?;
    let page = u32::try_from(page).ok()?;
    if event.may_be_partial && !context.blocks.knows_from_lone_page(page) {
        return None;
    }
    let size = if tier == Tier::Device { context.blocks.learn(page) } else { context.blocks.size() };
    Some((size?, page, seed))
}

/// A store that says nothing about tokens still says where known pages are. With tokens that cannot be used, its unknown
/// pages are dead ends; without any (an offload placeholder) they are nothing.
fn store_unusable(
    group: &mut Group,
    event: &Stored<'_>,
    size: Option<BlockSize>,
    tier: Tier,
    effects: &mut Effects<'_>,
) {
    let is_placeholder = event.tokens.positions() == 0;
    let fit =
        event.block_size.filter(|tokens| *tokens > 0).zip(size).map(|(tokens, size)| Fit::of(tokens as usize, size));
    for hash in &event.hashes {
        match (is_placeholder, group.known(*hash)) {
            (true, Some(known)) => {
                group.hold(*hash, known, tier, None, effects);
            }
            (true, None) => {}
            (false, _) => store_dead(group, *hash, fit.unwrap_or(Fit::Block), tier, effects),
        }
    }
}
