//! The tables of an `Image`, each with the code that builds it and the code that reads it in place.

mod added;
mod classes;
mod joins;
mod key;
mod merges;
mod trie;
mod twostage;
mod vocab;

pub use added::{AddedMatch, AddedSet, AddedToken, build_added};
pub(crate) use classes::decode;
pub use classes::{Class, ClassSet, ClassTable, HAN, NFC_UNSAFE, build_classes};
pub use joins::{JoinTable, build_joins};
pub(crate) use key::PieceKey;
pub use merges::{Merge, MergeTable, PairTable, build_byte_pairs, build_merges};
pub(crate) use trie::Trie;
pub use trie::build_trie;
pub(crate) use twostage::TwoStage;
pub use twostage::build_two_stage;
pub use vocab::{VocabTable, build_vocab};

use super::image::{Image, Section};

/// More probes than a table needs; ends the search in a hostile table without empty slots.
pub(crate) const PROBE_BOUND: u32 = 1024;

/// Views of all tables, made for each call that tokenizes.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// Token of every byte, `u32` each.
    pub byte_tokens: &'a [u8],
    /// Pieces to tokens.
    pub vocab: VocabTable<'a>,
    /// Pairs of tokens to merges.
    pub merges: MergeTable<'a>,
    /// Pairs of bytes to merges.
    pub pairs: PairTable<'a>,
    /// Unicode classes.
    pub classes: ClassTable<'a>,
    /// Pairs of characters that tokens hold.
    pub joins: JoinTable<'a>,
}

impl<'a> Tables<'a> {
    /// Views into `image`.
    pub fn of(image: &'a Image) -> Self {
        Self {
            byte_tokens: image.section(Section::Bytes),
            vocab: VocabTable::new(image.section(Section::Vocab), image.section(Section::VocabText)),
            merges: MergeTable::new(image.section(Section::Merges)),
            pairs: PairTable::new(image.section(Section::BytePairs)),
            classes: ClassTable::new(image.section(Section::ClassIndex), image.section(Section::ClassBlocks)),
            joins: JoinTable::new(image.section(Section::Joins)),
        }
    }
}

/// Maps the upper half of a hash onto `0..count` without a division.
#[inline]
pub(crate) fn slot_of(hash: u64, count: u32) -> u32 {
    (((hash >> 32) * u64::from(count)) >> 32) as u32
}
