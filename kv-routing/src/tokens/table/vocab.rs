//! Piece to token id.
//!
//! Open addressing with linear probing over slots of 16 bytes: two little-endian `u64`, both zero when free.
//!
//! | piece | first | second |
//! |---|---|---|
//! | up to 11 bytes | bytes 0..8 | bytes 8..11, length, token id (24 + 8 + 32 bits) |
//! | longer | offset in the text section, length (32 + 32 bits) | hash tag, 255, token id (24 + 8 + 32 bits) |
//!
//! Bit 31 of the id is [`PART_ONLY`].

use xxhash_rust::xxh3::xxh3_64;

use super::{PROBE_BOUND, PieceKey, slot_of};
use crate::block::TokenId;
use crate::tokens::image::bytes::{push_u64, u64_at};

/// Set in ids of pieces that occur as first symbols but that merging their own text does not give.
const PART_ONLY: u32 = 1 << 31;
const INLINE_BYTES: usize = 11;
const LONG: u64 = 255 << 24;
const SLOT_BYTES: usize = 16;

/// The table, in place.
#[derive(Clone, Copy, Debug)]
pub struct VocabTable<'a> {
    slots: &'a [u8],
    text: &'a [u8],
    count: u32,
}

impl<'a> VocabTable<'a> {
    /// A view of the two sections.
    pub fn new(slots: &'a [u8], text: &'a [u8]) -> Self {
        Self { slots, text, count: u32::try_from(slots.len() / SLOT_BYTES).unwrap_or(0) }
    }

    /// The token that `text[start..end]`, being a whole piece, becomes without any merging.
    #[inline]
    pub fn whole(&self, text: &[u8], start: usize, end: usize) -> Option<TokenId> {
        self.find(text, start, end).filter(|id| id & PART_ONLY == 0).map(TokenId)
    }

    /// The token whose text is `text[start..end]`.
    #[inline]
    pub fn symbol(&self, text: &[u8], start: usize, end: usize) -> Option<TokenId> {
        self.find(text, start, end).map(|id| TokenId(id & !PART_ONLY))
    }

    #[inline]
    fn find(&self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        match PieceKey::of(text, start, end) {
            Some(key) if key.length() <= INLINE_BYTES => self.find_short(key),
            _ => self.find_long(text.get(start..end)?),
        }
    }

    #[inline]
    fn find_short(&self, key: PieceKey) -> Option<u32> {
        let wanted = short_word(key);
        let mut slot = slot_of(key.hash(), self.count);
        for _ in 0..PROBE_BOUND {
            let (first, second) = self.slot(slot);
            if first == key.low && second as u32 == wanted {
                return Some((second >> 32) as u32);
            }
            if second == 0 {
                return None;
            }
            slot = if slot + 1 >= self.count { 0 } else { slot + 1 };
        }
        None
    }

    fn find_long(&self, piece: &[u8]) -> Option<u32> {
        let hash = xxh3_64(piece);
        let wanted = long_word(hash);
        let mut slot = slot_of(hash, self.count);
        for _ in 0..PROBE_BOUND {
            let (first, second) = self.slot(slot);
            if second as u32 == wanted {
                let offset = first as u32 as usize;
                let length = (first >> 32) as usize;
                if length == piece.len() && self.text.get(offset..offset.saturating_add(length)) == Some(piece) {
                    return Some((second >> 32) as u32);
                }
            }
            if second == 0 {
                return None;
            }
            slot = if slot + 1 >= self.count { 0 } else { slot + 1 };
        }
        None
    }

    #[inline]
    fn slot(&self, slot: u32) -> (u64, u64) {
        let at = slot as usize * SLOT_BYTES;
        match self.slots.get(at..).and_then(|rest| rest.first_chunk::<SLOT_BYTES>()) {
            Some(bytes) => {
                let both = u128::from_le_bytes(*bytes);
                (both as u64, (both >> 64) as u64)
            }
            None => (0, 0),
        }
    }
}

/// Bytes 8..11 and the length.
#[inline]
fn short_word(key: PieceKey) -> u32 {
    (key.high as u32 & 0x00ff_ffff) | ((key.length() as u32) << 24)
}

#[inline]
fn long_word(hash: u64) -> u32 {
    (hash as u32 & 0x00ff_ffff) | LONG as u32
}

/// Builds both sections from pieces with their ids; `true` marks pieces that are a token when they stand alone.
///
/// `None` when an id needs 31 bits or more, a piece is empty, or the table would need too many probes.
pub fn build_vocab(pieces: &[(Vec<u8>, TokenId, bool)]) -> Option<(Vec<u8>, Vec<u8>)> {
    if pieces.is_empty() {
        return Some((Vec::new(), Vec::new()));
    }
    let count = u32::try_from(pieces.len() * 5 / 3 + 8).ok()?;
    let mut slots = vec![(0_u64, 0_u64); count as usize];
    let mut text = Vec::new();
    for (piece, id, whole) in pieces {
        if id.0 >= PART_ONLY || piece.is_empty() {
            return None;
        }
        let id = id.0 | if *whole { 0 } else { PART_ONLY };
        let (hash, first, low) = match PieceKey::of(piece, 0, piece.len()) {
            Some(key) if key.length() <= INLINE_BYTES => (key.hash(), key.low, short_word(key)),
            _ => {
                let offset = text.len() as u64;
                text.extend_from_slice(piece);
                let hash = xxh3_64(piece);
                (hash, offset | (piece.len() as u64) << 32, long_word(hash))
            }
        };
        let mut slot = slot_of(hash, count);
        let mut probes = 0;
        while slots.get(slot as usize).is_some_and(|(_, second)| *second != 0) {
            slot = if slot + 1 >= count { 0 } else { slot + 1 };
            probes += 1;
            if probes >= PROBE_BOUND {
                return None;
            }
        }
        *slots.get_mut(slot as usize)? = (first, u64::from(low) | u64::from(id) << 32);
    }
    let mut bytes = Vec::with_capacity(slots.len() * SLOT_BYTES);
    for (first, second) in slots {
        push_u64(&mut bytes, first);
        push_u64(&mut bytes, second);
    }
    debug_assert_eq!(u64_at(&bytes, bytes.len()), 0);
    Some((bytes, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_piece_and_nothing_else() {
        let pieces: Vec<(Vec<u8>, TokenId, bool)> = (0..5000_u32)
            .map(|n| (format!("{}{n}", "x".repeat(n as usize % 40)).into_bytes(), TokenId(n), n % 3 != 0))
            .collect();
        let (slots, text) = build_vocab(&pieces).unwrap();
        let table = VocabTable::new(&slots, &text);
        for (piece, id, whole) in &pieces {
            assert_eq!(table.symbol(piece, 0, piece.len()), Some(*id));
            assert_eq!(table.whole(piece, 0, piece.len()), whole.then_some(*id));
            let mut other = piece.clone();
            other.push(b'!');
            assert_eq!(table.symbol(&other, 0, other.len()), None);
        }
    }

    #[test]
    fn a_table_of_noise_ends_the_search() {
        let noise = vec![0xa5; 16 * 5000];
        let table = VocabTable::new(&noise, &noise);
        assert_eq!(table.symbol(b"abc", 0, 3), None);
        assert_eq!(table.symbol(b"abcabcabcabcabc", 0, 15), None);
        assert_eq!(VocabTable::new(&[], &[]).symbol(b"abc", 0, 3), None);
    }
}
