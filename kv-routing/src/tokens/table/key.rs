//! Short pieces as two integers, so that looking one up compares integers, not bytes.

use crate::tokens::image::bytes::u64_at;

/// Longest piece a [`PieceKey`] can hold, in bytes.
pub(crate) const KEY_BYTES: usize = 15;

/// Bytes of a piece of at most [`KEY_BYTES`] bytes, zero padded, with its length in the top byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct PieceKey {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl PieceKey {
    /// The key of `text[start..end]`; `None` when the piece is longer than [`KEY_BYTES`].
    #[inline]
    pub(crate) fn of(text: &[u8], start: usize, end: usize) -> Option<Self> {
        let length = end.wrapping_sub(start);
        if length > KEY_BYTES {
            return None;
        }
        let (low, high) = match text.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(window) => {
                let window = u128::from_le_bytes(*window);
                (window as u64, (window >> 64) as u64)
            }
            None => {
                let mut window = [0_u8; 16];
                for (to, from) in window.iter_mut().zip(text.get(start..end).unwrap_or(&[])) {
                    *to = *from;
                }
                (u64_at(&window, 0), u64_at(&window, 8))
            }
        };
        let (low_mask, high_mask) = masks(length);
        Some(Self { low: low & low_mask, high: (high & high_mask) | ((length as u64) << 56) })
    }

    /// Bytes of the piece.
    #[inline]
    pub(crate) fn length(self) -> usize {
        (self.high >> 56) as usize
    }

    /// Hash of the key; the upper half is the better one.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        let mut mixed = self.low.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
        mixed = (mixed ^ self.high).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^= mixed >> 32;
        mixed.wrapping_mul(0xa076_1d64_78bd_642f)
    }
}

#[inline]
fn masks(length: usize) -> (u64, u64) {
    let keep = |bytes: usize| if bytes == 0 { 0 } else { u64::MAX >> (64 - 8 * bytes as u32) };
    (keep(length.min(8)), keep(length.saturating_sub(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_depend_on_what_follows_the_piece() {
        let long = b"0123456789abcdefghijklmnop";
        for start in 0..8 {
            for length in 0..=KEY_BYTES {
                let end = start + length;
                let inside = PieceKey::of(long, start, end).unwrap();
                let alone = PieceKey::of(&long[..end], start, end).unwrap();
                assert_eq!(inside, alone);
                assert_eq!(inside.length(), length);
            }
        }
        assert!(PieceKey::of(long, 0, 16).is_none());
    }

    #[test]
    fn length_tells_zero_bytes_from_padding() {
        assert_ne!(PieceKey::of(b"a\0", 0, 1), PieceKey::of(b"a\0", 0, 2));
    }
}
