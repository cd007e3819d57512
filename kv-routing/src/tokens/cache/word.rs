//! Short pieces to their tokens: a table with one place per hash, the newer piece overwriting the older.
//!
//! The piece itself is the key, so a hit is never wrong.

use crate::block::TokenId;
use crate::tokens::table::PieceKey;

/// Most tokens of a piece that is remembered.
pub(crate) const WORD_TOKENS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: PieceKey,
    tokens: [TokenId; WORD_TOKENS],
    count: u32,
}

/// The table.
#[derive(Debug)]
pub(crate) struct WordCache {
    slots: Vec<Slot>,
    mask: usize,
}

impl WordCache {
    /// A table of 2^`bits` places; each takes 40 bytes.
    pub(crate) fn new(bits: u32) -> Self {
        let count = 1_usize << bits;
        Self { slots: vec![Slot::default(); count], mask: count - 1 }
    }

    /// The tokens of a piece.
    #[inline]
    pub(crate) fn get(&self, key: PieceKey) -> Option<&[TokenId]> {
        let slot = self.slots.get(self.place(key)).filter(|slot| slot.key == key)?;
        slot.tokens.get(..slot.count as usize)
    }

    /// Remembers a piece unless it has too many tokens.
    #[inline]
    pub(crate) fn put(&mut self, key: PieceKey, tokens: &[TokenId]) {
        if tokens.len() > WORD_TOKENS {
            return;
        }
        let place = self.place(key);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.key = key;
            slot.count = tokens.len() as u32;
            for (to, from) in slot.tokens.iter_mut().zip(tokens) {
                *to = *from;
            }
        }
    }

    #[inline]
    fn place(&self, key: PieceKey) -> usize {
        (key.hash() >> 32) as usize & self.mask
    }
}
