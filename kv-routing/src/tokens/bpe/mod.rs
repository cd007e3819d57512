//! Byte-pair merging: the pair of the lowest rank first, of equals the leftmost.
//!
//! [`short`] looks for the lowest rank by scanning, which wins for the words text is made of; [`long`] keeps a queue and can be
//! interrupted, for the rest. Both give what the reference gives: there a queued merge is dropped when the pair at its place
//! makes another token by now, and since every merge makes a longer text than the one it replaces, that is the same as
//! dropping it when the pair at its place is no longer the pair it was queued for.

mod long;
mod short;
mod symbols;

pub(crate) use long::LongMerge;
pub(crate) use short::{SHORT_SYMBOLS, ShortMerge};
pub(crate) use symbols::first_symbols;
