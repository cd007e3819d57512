//! Merging of short pieces by scanning for the lowest rank.

use super::symbols::byte_token;
use crate::block::TokenId;
use crate::tokens::table::{Merge, Tables};

/// Pieces of more symbols than this go to the queue.
pub(crate) const SHORT_SYMBOLS: usize = 64;

/// Buffers that live from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct ShortMerge {
    /// Symbols of the piece.
    pub(crate) symbols: Vec<TokenId>,
    /// Merge of symbol `i` with symbol `i + 1`.
    merges: Vec<Merge>,
}

impl ShortMerge {
    /// Takes a piece of byte-level text; [`ShortMerge::run`] merges it.
    #[inline]
    pub(crate) fn set_bytes(&mut self, tables: &Tables<'_>, piece: &[u8]) {
        self.symbols.clear();
        self.symbols.extend(piece.iter().map(|byte| byte_token(tables, *byte)));
        self.merges.clear();
        self.merges.extend(piece.windows(2).map(|pair| match pair {
            [left, right] => tables.pairs.of(*left, *right),
            _ => Merge::NONE,
        }));
    }

    /// Takes [`ShortMerge::symbols`] as they are; [`ShortMerge::run`] merges them.
    pub(crate) fn set_symbols(&mut self, tables: &Tables<'_>) {
        self.merges.clear();
        self.merges.extend(self.symbols.windows(2).map(|pair| match pair {
            [left, right] => tables.merges.of(*left, *right),
            _ => Merge::NONE,
        }));
    }

    /// Merges as far as it goes; the result is in [`ShortMerge::symbols`].
    pub(crate) fn run(&mut self, tables: &Tables<'_>) {
        let Self { symbols, merges } = self;
        while let Some((at, merge)) = lowest(merges) {
            if let Some(symbol) = symbols.get_mut(at) {
                *symbol = merge.id;
            }
            symbols.remove(at + 1);
            merges.remove(at);
            if let Some(slot) = merges.get_mut(at)
                && let Some(next) = symbols.get(at + 1)
            {
                *slot = tables.merges.of(merge.id, *next);
            }
            if let Some(before) = at.checked_sub(1)
                && let (Some(slot), Some(left)) = (merges.get_mut(before), symbols.get(before))
            {
                *slot = tables.merges.of(*left, merge.id);
            }
        }
    }
}

#[inline]
fn lowest(merges: &[Merge]) -> Option<(usize, Merge)> {
    let mut best = (0, Merge::NONE);
    for (at, merge) in merges.iter().enumerate() {
        if merge.rank < best.1.rank {
            best = (at, *merge);
        }
    }
    (best.1.rank != u32::MAX).then_some(best)
}
