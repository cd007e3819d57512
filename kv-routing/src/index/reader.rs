//! Placeholder of the reader's interface.

use super::Overlaps;
use crate::block::SequenceHash;
use crate::wire::Epoch;

/// Where pages come from: shared data in the filter, a vector in tests.
pub trait PageSource {
    /// All bytes of page `page`, or `None` when it was never written.
    fn page(&mut self, page: u32) -> Option<Vec<u8>>;
}

/// What a lookup cost and met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupStats {
    /// Pages fetched.
    pub pages: u32,
    /// Pages ignored because of another epoch or version, or because they were malformed.
    pub rejected_pages: u32,
}

/// Overlap of every target with `chain`.
pub fn lookup(
    chain: &[SequenceHash],
    page_bits: u8,
    epoch: Epoch,
    source: &mut impl PageSource,
) -> (Overlaps, LookupStats) {
    let _ = (chain, page_bits, epoch, source);
    (Overlaps::default(), LookupStats::default())
}
