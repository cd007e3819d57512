//! Blocks put together from engine pages smaller than a block.
//!
//! A strip is a chain of equal pages inside one block. It begins at the block's start, or behind the first pages of
//! another strip (its base) where two chains part inside a block. The block is held on a tier when every page of the strip
//! and every page it uses of its base is.
//!
//! ```text
//! block of 16 tokens, pages of 4:   base    [a][b][c][d]      -> block 1
//!                                              \
//!                                   branch      [e][f]        -> incomplete: 12 of 16 tokens
//! ```

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::target::Tier;

use super::chain::block_hash;
use crate::engine::EngineHash;

/// Number of a strip in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StripId(pub(super) u32);

/// See the module.
#[derive(Debug)]
pub(super) struct Strip {
    /// The strip whose first pages come before this one's, and how many of them.
    pub(super) base: Option<(StripId, u16)>,
    /// The block before this one.
    pub(super) before: Option<SequenceHash>,
    pub(super) seed: HashSeed,
    /// Tokens of the block before this strip's first page.
    start: u32,
    page_tokens: u32,
    pub(super) pages: Vec<EngineHash>,
    tokens: Vec<TokenId>,
    /// Image hashes with the page they came with.
    images: Vec<(u16, u64)>,
    /// Hash of the block, once its tokens are all known.
    pub(super) block: Option<SequenceHash>,
    /// Strips that have this one as base.
    pub(super) branches: Vec<StripId>,
    /// Own pages present, per tier.
    present: [u16; 3],
    /// Tiers on which the block is in the index.
    shown: [bool; 3],
}

impl Strip {
    /// Tokens of the block up to the strip's end.
    pub(super) fn end(&self) -> u32 {
        self.start + self.page_tokens * self.pages.len() as u32
    }

    /// Tokens of the block up to the end of page `index`.
    pub(super) fn end_of(&self, index: u16) -> u32 {
        self.start + self.page_tokens * (u32::from(index) + 1)
    }

    fn count(&mut self, tier: Tier, change: i16) {
        if let Some(count) = self.present.get_mut(usize::from(tier.index())) {
            *count = count.saturating_add_signed(change);
        }
    }

    pub(super) fn arrive(&mut self, tier: Tier) {
        self.count(tier, 1);
    }

    pub(super) fn depart(&mut self, tier: Tier) {
        self.count(tier, -1);
    }

    /// Whether all of its own pages are on `tier`.
    pub(super) fn is_whole(&self, tier: Tier) -> bool {
        self.present.get(usize::from(tier.index())).is_some_and(|count| usize::from(*count) == self.pages.len())
    }

    pub(super) fn is_shown(&self, tier: Tier) -> bool {
        self.shown.get(usize::from(tier.index())).copied().unwrap_or(false)
    }

    pub(super) fn set_shown(&mut self, tier: Tier, shown: bool) {
        if let Some(flag) = self.shown.get_mut(usize::from(tier.index())) {
            *flag = shown;
        }
    }

    /// Bytes of memory that its lists of pages and tokens take.
    fn list_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<EngineHash>() + self.tokens.capacity() * size_of::<TokenId>()
    }

    /// Takes the last page off; its block is then incomplete.
    pub(super) fn pop(&mut self) -> Option<EngineHash> {
        let page = self.pages.pop()?;
        let left = self.pages.len();
        self.tokens.truncate(left * self.page_tokens as usize);
        self.images.retain(|(index, _)| usize::from(*index) < left);
        self.block = None;
        Some(page)
    }
}

/// One page about to be put into a strip.
pub(super) struct Part<'a> {
    pub(super) hash: EngineHash,
    pub(super) tokens: &'a [TokenId],
    pub(super) images: &'a [u64],
    pub(super) seed: HashSeed,
}

/// All strips of a group.
#[derive(Debug, Default)]
pub(super) struct Strips {
    slots: Vec<Option<Strip>>,
    free: Vec<u32>,
    /// Bytes that the strips' lists take: SGLang's pages of one token make millions of strips, too many to ask each.
    list_bytes: usize,
}

impl Strips {
    /// Estimated bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Strip>>() + self.list_bytes
    }

    pub(super) fn get(&self, id: StripId) -> Option<&Strip> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: StripId) -> Option<&mut Strip> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// Calls `visit` for every block shown on `tier`.
    pub(super) fn for_each_shown(&self, tier: Tier, visit: impl FnMut(SequenceHash)) {
        let shown = self.slots.iter().flatten().filter(|strip| strip.is_shown(tier));
        shown.filter_map(|strip| strip.block).for_each(visit);
    }

    /// Puts a page at a block's start, behind the block `before`.
    pub(super) fn begin(
        &mut self,
        before: Option<SequenceHash>,
        part: &Part<'_>,
        size: BlockSize,
    ) -> Option<(StripId, u16)> {
        let strip = self.new_strip(None, before, 0, part);
        self.put(strip, part, size)
    }

    /// Puts a page behind page `index` of strip `id`: at its end if it fits there, else on a branch. `None` when the
    /// page would reach over the block's end.
    pub(super) fn extend(
        &mut self,
        id: StripId,
        index: u16,
        part: &Part<'_>,
        size: BlockSize,
    ) -> Option<(StripId, u16)> {
        let strip = self.get(id)?;
        let start = strip.end_of(index);
        if start + part.tokens.len() as u32 > size.tokens() {
            return None;
        }
        let is_last = usize::from(index) + 1 == strip.pages.len();
        if is_last && part.tokens.len() == strip.page_tokens as usize && part.seed == strip.seed {
            return self.put(id, part, size);
        }
        let before = strip.before;
        let branch = self.new_strip(Some((id, index + 1)), before, start, part);
        if let Some(strip) = self.get_mut(id) {
            strip.branches.push(branch);
        }
        self.put(branch, part, size)
    }

    fn new_strip(
        &mut self,
        base: Option<(StripId, u16)>,
        before: Option<SequenceHash>,
        start: u32,
        part: &Part<'_>,
    ) -> StripId {
        let strip = Strip {
            base,
            before,
            seed: part.seed,
            start,
            page_tokens: part.tokens.len() as u32,
            pages: Vec::new(),
            tokens: Vec::new(),
            images: Vec::new(),
            block: None,
            branches: Vec::new(),
            present: [0; 3],
            shown: [false; 3],
        };
        match self.free.pop().and_then(|free| Some((free, self.slots.get_mut(free as usize)?))) {
            Some((free, slot)) => {
                *slot = Some(strip);
                StripId(free)
            }
            None => {
                self.slots.push(Some(strip));
                StripId(self.slots.len() as u32 - 1)
            }
        }
    }

    fn put(&mut self, id: StripId, part: &Part<'_>, size: BlockSize) -> Option<(StripId, u16)> {
        let strip = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let index = u16::try_from(strip.pages.len()).ok()?;
        let before = strip.list_bytes();
        strip.pages.push(part.hash);
        strip.tokens.extend_from_slice(part.tokens);
        self.list_bytes = self.list_bytes + strip.list_bytes() - before;
        strip.images.extend(part.images.iter().map(|image| (index, *image)));
        if strip.end() == size.tokens() {
            let block = self.hash(id, size);
            self.get_mut(id)?.block = block;
        }
        Some((id, index))
    }

    /// Hash of the block whose last pages are strip `id`'s.
    fn hash(&self, id: StripId, size: BlockSize) -> Option<SequenceHash> {
        let strip = self.get(id)?;
        let (mut pieces, mut images) = (vec![strip.tokens.as_slice()], Vec::new());
        images.extend(strip.images.iter().map(|(_, image)| *image));
        let mut base = strip.base;
        while let Some((id, used)) = base {
            let below = self.get(id)?;
            pieces.push(below.tokens.get(..usize::from(used) * below.page_tokens as usize)?);
            images.extend(below.images.iter().filter(|(index, _)| *index < used).map(|(_, image)| *image));
            base = below.base;
        }
        let tokens: Vec<TokenId> = pieces.into_iter().rev().flatten().copied().collect();
        debug_assert_eq!(tokens.len(), size.tokens() as usize);
        Some(block_hash(strip.before, &tokens, &mut images, strip.seed))
    }

    /// Forgets an empty strip. Returns its base, which may have become empty at its end.
    pub(super) fn remove(&mut self, id: StripId) -> Option<(StripId, u16)> {
        let strip = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        self.list_bytes = self.list_bytes.saturating_sub(strip.list_bytes());
        if let Some((base, _)) = strip.base
            && let Some(base) = self.get_mut(base)
        {
            base.branches.retain(|branch| *branch != id);
        }
        strip.base
    }
}

#[cfg(test)]
impl Strips {
    /// [`Strips::bytes`] by asking every strip.
    pub(super) fn counted_bytes(&self) -> usize {
        let lists: usize = self.slots.iter().flatten().map(Strip::list_bytes).sum();
        self.slots.capacity() * size_of::<Option<Strip>>() + lists
    }
}
