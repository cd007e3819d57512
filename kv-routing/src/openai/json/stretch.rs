//! Stretches of a string that stand for themselves: up to a `"`, a `\` or a control character.

/// Bytes looked at together: a vector.
const WIDE: usize = 16;

/// Bytes of a block: as many as a word has bits.
pub(super) const BLOCK: usize = 64;

#[inline]
fn is_special(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Length of the stretch at the start of `bytes`.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let (chunks, tail) = bytes.as_chunks::<WIDE>();
    for (index, chunk) in chunks.iter().enumerate() {
        let plain = first_special(chunk);
        if plain < WIDE {
            return index * WIDE + plain;
        }
    }
    chunks.len() * WIDE + tail.iter().position(is_special).unwrap_or(tail.len())
}

/// Place of the first special byte; [`WIDE`] when there is none.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn first_special(chunk: &[u8; WIDE]) -> usize {
    (u32::from(special_bits(chunk)) | 1 << WIDE).trailing_zeros() as usize
}

/// A bit for every special byte, the first byte's is the lowest.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline]
fn special_bits(chunk: &[u8; WIDE]) -> u16 {
    use core::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, u64x2, v128_or};

    let [low, high] = words(chunk);
    let bytes = u64x2(low, high);
    let quote = u8x16_eq(bytes, u8x16_splat(b'"'));
    let backslash = u8x16_eq(bytes, u8x16_splat(b'\\'));
    let control = u8x16_lt(bytes, u8x16_splat(0x20));
    u8x16_bitmask(v128_or(v128_or(quote, backslash), control))
}

/// A bit for every special byte, the first byte's is the lowest.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline]
fn special_bits(chunk: &[u8; WIDE]) -> u16 {
    chunk.iter().rev().fold(0, |bits, byte| bits << 1 | u16::from(is_special(byte)))
}

/// A bit for every special byte of a block, the first byte's is the lowest.
#[inline]
pub(super) fn specials(block: &[u8; BLOCK]) -> u64 {
    block.as_chunks::<WIDE>().0.iter().rev().fold(0, |bits, chunk| bits << WIDE | u64::from(special_bits(chunk)))
}

/// Place of the first special byte; [`WIDE`] when there is none.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline]
fn first_special(chunk: &[u8; WIDE]) -> usize {
    let [low, high] = words(chunk).map(special_bytes);
    let place = |found: u64| (found.trailing_zeros() / 8) as usize;
    if low != 0 { place(low) } else { 8 + place(high) }
}

/// High bits of the bytes of `word` that are special. The lowest one set is exact; those above it need not be, since a borrow may
/// have run through them.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let quote = zero(word ^ (ONES * 0x22));
    let backslash = zero(word ^ (ONES * 0x5c));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & TOPS
}

#[inline]
fn words(chunk: &[u8; WIDE]) -> [u64; 2] {
    let whole = u128::from_le_bytes(*chunk);
    [whole as u64, (whole >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, WIDE, first_special, is_special, plain_len, specials};

    #[test]
    fn every_byte_at_every_place_is_told_from_its_neighbours() {
        for byte in 0..=u8::MAX {
            for place in 0..WIDE {
                for around in [b'a', 0xff, b'!', b'#', 0x20, b'[', b']'] {
                    let mut chunk = [around; WIDE];
                    chunk[place] = byte;
                    let expected = chunk.iter().position(is_special).unwrap_or(WIDE);
                    assert_eq!(first_special(&chunk), expected, "{byte:#x} at {place} among {around:#x}");
                    chunk[WIDE - 1] = b'"';
                    assert!(first_special(&chunk) < WIDE);
                }
            }
        }
    }

    #[test]
    fn every_special_byte_of_a_block_has_its_bit() {
        for byte in 0..=u8::MAX {
            let mut block = [byte; BLOCK];
            assert_eq!(specials(&block), if is_special(&byte) { u64::MAX } else { 0 });
            for place in 0..BLOCK {
                block.fill(b'a');
                (block[place], block[BLOCK - 1 - place]) = (byte, b'"');
                let expected = (0..).zip(&block).map(|(at, byte)| u64::from(is_special(byte)) << at);
                assert_eq!(specials(&block), expected.sum::<u64>(), "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn stretches_end_where_one_byte_at_a_time_says() {
        let text = "plain text with ünïcödé, long enough for vectors\u{1} \"and\" a \\ at last, then a tail";
        for start in 0..text.len() {
            let bytes = &text.as_bytes()[start..];
            assert_eq!(plain_len(bytes), bytes.iter().position(is_special).unwrap_or(bytes.len()), "{start}");
        }
    }
}
