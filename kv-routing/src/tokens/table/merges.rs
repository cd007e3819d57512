//! Pair of token ids to merge rank and merged id.
//!
//! [`MergeTable`]: open addressing with linear probing over slots of 16 bytes: left, right, rank, id (`u32` each);
//! left and right are both `u32::MAX` in a free slot. [`PairTable`]: for every pair of bytes, first byte major, rank and
//! id (`u32` each); rank `u32::MAX` when the two do not merge.

use super::{PROBE_BOUND, slot_of};
use crate::block::TokenId;
use crate::tokens::image::bytes::{push_u32, u64_at};

const SLOT_BYTES: usize = 16;
const FREE: u64 = u64::MAX;

/// What a pair becomes, and how urgently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Lower merges first.
    pub rank: u32,
    /// The merged token.
    pub id: TokenId,
}

impl Merge {
    /// Stands for "these two do not merge".
    pub(crate) const NONE: Self = Self { rank: u32::MAX, id: TokenId(u32::MAX) };

    #[inline]
    fn unpack(both: u64) -> Self {
        Self { rank: both as u32, id: TokenId((both >> 32) as u32) }
    }
}

/// Merges of token pairs, in place.
#[derive(Clone, Copy, Debug)]
pub struct MergeTable<'a> {
    slots: &'a [u8],
    count: u32,
}

impl<'a> MergeTable<'a> {
    /// A view of the section.
    pub fn new(slots: &'a [u8]) -> Self {
        Self { slots, count: u32::try_from(slots.len() / SLOT_BYTES).unwrap_or(0) }
    }

    /// The merge of two tokens, or [`Merge::NONE`].
    #[inline]
    pub(crate) fn of(&self, left: TokenId, right: TokenId) -> Merge {
        let key = pair_key(left, right);
        let mut slot = slot_of(pair_hash(key), self.count);
        for _ in 0..PROBE_BOUND {
            let at = slot as usize * SLOT_BYTES;
            let Some(bytes) = self.slots.get(at..).and_then(|rest| rest.first_chunk::<SLOT_BYTES>()) else {
                return Merge::NONE;
            };
            let both = u128::from_le_bytes(*bytes);
            if both as u64 == key {
                return Merge::unpack((both >> 64) as u64);
            }
            if both as u64 == FREE {
                return Merge::NONE;
            }
            slot = if slot + 1 >= self.count { 0 } else { slot + 1 };
        }
        Merge::NONE
    }
}

#[inline]
fn pair_key(left: TokenId, right: TokenId) -> u64 {
    u64::from(left.0) | u64::from(right.0) << 32
}

#[inline]
fn pair_hash(key: u64) -> u64 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Builds the section. Later merges of the same pair win, as in the reference. `None` when the table would need too many probes.
pub fn build_merges(merges: &[(TokenId, TokenId, Merge)]) -> Option<Vec<u8>> {
    if merges.is_empty() {
        return Some(Vec::new());
    }
    let count = u32::try_from(merges.len() * 9 / 5 + 8).ok()?;
    let mut slots = vec![(FREE, Merge::NONE); count as usize];
    for (left, right, merge) in merges {
        let key = pair_key(*left, *right);
        let mut slot = slot_of(pair_hash(key), count);
        let mut probes = 0;
        while slots.get(slot as usize).is_some_and(|(taken, _)| *taken != FREE && *taken != key) {
            slot = if slot + 1 >= count { 0 } else { slot + 1 };
            probes += 1;
            if probes >= PROBE_BOUND {
                return None;
            }
        }
        *slots.get_mut(slot as usize)? = (key, *merge);
    }
    let mut bytes = Vec::with_capacity(slots.len() * SLOT_BYTES);
    for (key, merge) in slots {
        bytes.extend_from_slice(&key.to_le_bytes());
        push_u32(&mut bytes, merge.rank);
        push_u32(&mut bytes, merge.id.0);
    }
    Some(bytes)
}

/// Merges of byte pairs, in place.
#[derive(Clone, Copy, Debug)]
pub struct PairTable<'a> {
    pairs: &'a [u8],
}

impl<'a> PairTable<'a> {
    /// A view of the section.
    pub fn new(pairs: &'a [u8]) -> Self {
        Self { pairs }
    }

    /// The merge of two bytes, or [`Merge::NONE`].
    #[inline]
    pub(crate) fn of(&self, left: u8, right: u8) -> Merge {
        Merge::unpack(u64_at(self.pairs, (usize::from(left) * 256 + usize::from(right)) * 8))
    }
}

/// Builds the byte-pair section from the merge section and the token of every byte.
pub fn build_byte_pairs(merges: &[u8], byte_tokens: &[TokenId; 256]) -> Vec<u8> {
    let merges = MergeTable::new(merges);
    let mut bytes = Vec::with_capacity(256 * 256 * 8);
    for left in byte_tokens {
        for right in byte_tokens {
            let merge = merges.of(*left, *right);
            push_u32(&mut bytes, merge.rank);
            push_u32(&mut bytes, merge.id.0);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_pair_and_nothing_else() {
        let merges: Vec<_> =
            (0..4000_u32).map(|n| (TokenId(n), TokenId(n * 7), Merge { rank: n, id: TokenId(n + 10_000) })).collect();
        let bytes = build_merges(&merges).unwrap();
        let table = MergeTable::new(&bytes);
        for (left, right, merge) in &merges {
            assert_eq!(table.of(*left, *right), *merge);
            assert_eq!(table.of(*left, TokenId(right.0 + 1)), Merge::NONE);
        }
    }

    #[test]
    fn the_last_merge_of_a_pair_wins() {
        let pair = |rank| (TokenId(1), TokenId(2), Merge { rank, id: TokenId(3) });
        let bytes = build_merges(&[pair(5), pair(9)]).unwrap();
        assert_eq!(MergeTable::new(&bytes).of(TokenId(1), TokenId(2)).rank, 9);
    }

    #[test]
    fn tables_of_noise_end_the_search() {
        let noise = vec![0x5a; 16 * 3000];
        assert_eq!(MergeTable::new(&noise).of(TokenId(1), TokenId(2)), Merge::NONE);
        assert_eq!(MergeTable::new(&[]).of(TokenId(1), TokenId(2)), Merge::NONE);
        assert_eq!(PairTable::new(&[]).of(1, 2), Merge { rank: 0, id: TokenId(0) });
    }
}
