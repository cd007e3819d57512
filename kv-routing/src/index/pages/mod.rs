//! Pages: how the index is published. The layout is in `../README.md`.

mod encode;
mod set;
mod view;

pub(super) use encode::encode;
pub(super) use set::{PageSet, PageTuning, Pressure};
pub(super) use view::{PageView, RunView};

use crate::block::SequenceHash;

/// Fourth byte of a page. A reader ignores pages of any other version.
pub const PAGE_VERSION: u8 = 1;

/// A page set has at most `2^MAX_PAGE_BITS` pages, so that the number of shared-data keys stays bounded.
pub const MAX_PAGE_BITS: u8 = 16;

const MAGIC: [u8; 3] = *b"KVI";
/// Magic, version, page bits, 3 zero bytes, epoch, page number, number of runs.
const HEADER_BYTES: usize = 24;
const KEY_BYTES: usize = 8;
/// Where the run's body lies, its blocks, its groups.
const ENTRY_BYTES: usize = 8;
const CHECK_BYTES: usize = 4;
/// Three lengths and the number of slots.
const GROUP_BYTES: usize = 8;
const SLOT_BYTES: usize = 2;

/// Number of the page, among `2^page_bits`, in which the run beginning with `key` lies.
pub fn page_of(key: SequenceHash, page_bits: u8) -> u32 {
    match page_bits {
        0 => 0,
        bits => (key.0 >> (64 - u32::from(bits.min(32)))) as u32,
    }
}

/// What a page keeps of every block of a run but the first.
fn check_of(hash: SequenceHash) -> u32 {
    hash.0 as u32
}
