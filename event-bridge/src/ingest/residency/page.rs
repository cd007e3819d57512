//! What is known of one engine page.

use kv_routing::block::{BlockSize, SequenceHash};
use kv_routing::target::Tier;

use super::strip::StripId;

/// What a page means in terms of the pool's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Exactly one block.
    Block(SequenceHash),
    /// Several blocks, of which this is the last; the others are in the group's table of wide pages.
    Wide(SequenceHash),
    /// A part of a block: page `index` of a strip.
    Part(StripId, u16),
    /// Its tokens are unknown or unusable, and so are those of everything behind it.
    Dead,
}

/// How a page's size compares with the pool's block. One engine hash may name pages of different sizes, on different tiers:
/// what ends with the last of four blocks is called like that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// As large.
    Block,
    /// Larger.
    Chunk,
    /// Smaller.
    Part,
}

impl Fit {
    /// The most frequent first.
    pub(super) const ALL: [Self; 3] = [Self::Block, Self::Chunk, Self::Part];

    pub(super) fn of(tokens: usize, size: BlockSize) -> Self {
        match tokens.cmp(&(size.tokens() as usize)) {
            std::cmp::Ordering::Less => Self::Part,
            std::cmp::Ordering::Equal => Self::Block,
            std::cmp::Ordering::Greater => Self::Chunk,
        }
    }
}

/// References to a page, per tier.
pub(super) type Refs = [u16; 3];

/// One engine page of one group. There is one per block and target, so it is packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    word: u64,
    refs: Refs,
    kind: Kind,
    /// Bits, see below.
    flags: u8,
}

/// The seed of the page's chain is in the group's table, because it is not the plain one.
const SEEDED: u8 = 1;
/// It was announced although it was held, in a way that need not mean another copy.
const REPEATED: u8 = 2;
/// For the device's tier, shifted for the others: the last that was heard of it is that a copy is gone, and whether one is
/// left is not sure.
const IN_DOUBT: u8 = 4;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Block,
    Wide,
    Part,
    Dead,
}

impl Page {
    pub(super) fn new(content: Content, seeded: bool) -> Self {
        let (kind, word) = match content {
            Content::Block(hash) => (Kind::Block, hash.0),
            Content::Wide(last) => (Kind::Wide, last.0),
            Content::Part(strip, index) => (Kind::Part, u64::from(strip.0) << 16 | u64::from(index)),
            Content::Dead => (Kind::Dead, 0),
        };
        Self { word, refs: Refs::default(), kind, flags: if seeded { SEEDED } else { 0 } }
    }

    /// A page with its references.
    pub(super) fn with_refs(content: Content, seeded: bool, refs: Refs) -> Self {
        Self { refs, ..Self::new(content, seeded) }
    }

    pub(super) fn is_seeded(&self) -> bool {
        self.flags & SEEDED != 0
    }

    /// References per tier.
    pub(super) fn refs(&self) -> Refs {
        self.refs
    }

    pub(super) fn content(&self) -> Content {
        match self.kind {
            Kind::Block => Content::Block(SequenceHash(self.word)),
            Kind::Wide => Content::Wide(SequenceHash(self.word)),
            Kind::Part => Content::Part(StripId((self.word >> 16) as u32), self.word as u16),
            Kind::Dead => Content::Dead,
        }
    }

    /// One reference more; `true` when it is the tier's first. A count that is full stays full.
    pub(super) fn hold(&mut self, tier: Tier) -> bool {
        let Some(refs) = self.refs.get_mut(usize::from(tier.index())) else { return false };
        *refs = refs.saturating_add(1);
        *refs == 1
    }

    /// One reference less; `None` when there was none, `Some(true)` when it was the tier's last.
    pub(super) fn release(&mut self, tier: Tier) -> Option<bool> {
        let refs = self.refs.get_mut(usize::from(tier.index()))?;
        *refs = refs.checked_sub(1)?;
        Some(*refs == 0)
    }

    /// Adds the references of another page on `tier`.
    pub(super) fn add_refs(&mut self, other: &Self, tier: Tier) {
        let at = usize::from(tier.index());
        if let (Some(refs), Some(more)) = (self.refs.get_mut(at), other.refs.get(at)) {
            *refs = refs.saturating_add(*more);
        }
    }

    /// It was announced again, which need not mean another copy.
    pub(super) fn repeat(&mut self) {
        self.flags |= REPEATED;
    }

    pub(super) fn is_in_doubt(&self, tier: Tier) -> bool {
        self.flags & IN_DOUBT << tier.index() != 0
    }

    /// A copy is gone and references are left: whether that means another copy. Returns whether it is in doubt now.
    pub(super) fn doubt(&mut self, tier: Tier) -> bool {
        if self.flags & REPEATED != 0 {
            self.flags |= IN_DOUBT << tier.index();
        }
        self.is_in_doubt(tier)
    }

    /// It is known again whether it is on `tier`.
    pub(super) fn settle_doubt(&mut self, tier: Tier) {
        self.flags &= !(IN_DOUBT << tier.index());
    }

    pub(super) fn is_on(&self, tier: Tier) -> bool {
        self.refs.get(usize::from(tier.index())).is_some_and(|refs| *refs > 0)
    }

    /// Whether no tier has it.
    pub(super) fn is_gone(&self) -> bool {
        self.refs == Refs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_keeps_the_content() {
        for content in [
            Content::Block(SequenceHash(u64::MAX)),
            Content::Wide(SequenceHash(1)),
            Content::Part(StripId(u32::MAX), u16::MAX),
            Content::Part(StripId(0), 7),
            Content::Dead,
        ] {
            assert_eq!(Page::new(content, false).content(), content);
        }
        assert_eq!(size_of::<Page>(), 16);
    }

    #[test]
    fn references_count_per_tier_and_never_go_below_zero() {
        let mut page = Page::new(Content::Dead, false);
        assert!(page.hold(Tier::Device));
        assert!(!page.hold(Tier::Device));
        assert!(page.hold(Tier::Disk));
        assert_eq!(page.release(Tier::Host), None);
        assert_eq!(page.release(Tier::Device), Some(false));
        assert_eq!(page.release(Tier::Device), Some(true));
        assert_eq!(page.release(Tier::Device), None);
        assert!(!page.is_gone());
        assert_eq!(page.release(Tier::Disk), Some(true));
        assert!(page.is_gone());
    }
}
