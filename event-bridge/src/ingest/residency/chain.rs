//! Where in its chain a page stands, and the hash of a block.

use kv_routing::block::{HashSeed, SequenceHash, TokenId, extend, local_hash, local_hash_with_images};

use super::strip::StripId;

/// The place right behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A block's start; behind that block, if there is one.
    Boundary(Option<SequenceHash>),
    /// Inside a block, behind that page of that strip.
    Inside(StripId, u16),
    /// Behind something whose tokens are unknown.
    Nowhere,
}

impl Place {
    /// The last whole block before it.
    pub(super) fn block_before(self) -> Option<SequenceHash> {
        match self {
            Self::Boundary(before) => before,
            Self::Inside(..) | Self::Nowhere => None,
        }
    }
}

/// Hash of the block of `tokens` behind `before`. `images` is sorted and rid of duplicates.
pub(super) fn block_hash(
    before: Option<SequenceHash>,
    tokens: &[TokenId],
    images: &mut Vec<u64>,
    seed: HashSeed,
) -> SequenceHash {
    if images.is_empty() {
        return extend(before, local_hash(tokens, seed));
    }
    images.sort_unstable();
    images.dedup();
    extend(before, local_hash_with_images(tokens, images, seed))
}
