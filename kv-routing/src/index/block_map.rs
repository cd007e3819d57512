//! Where each block lies: hash of a block to its run and its offset in it.
//!
//! A Robin Hood table of 8 bytes per bucket. It keeps no hashes of its own, since the runs have them, and it leaves no
//! marks where something was removed: engines store and evict all day, and a table that has to be cleaned of such
//! marks grows or stalls for it.

use super::run::{RunId, Runs};
use crate::block::SequenceHash;

/// Place of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockAt {
    pub(super) run: RunId,
    pub(super) offset: u16,
}

/// Every block of an index, each in exactly one run.
///
/// Sequence hashes are well mixed, but their seed is public and their input is what clients send: whoever searches for
/// prompts whose hashes share some bits could pile them into one place. One multiplication keyed by a secret takes that
/// away at the price of a few cycles.
#[derive(Debug)]
pub(super) struct BlockMap {
    /// `homes` buckets that blocks belong to, then [`MAX_DISTANCE`] that only catch what is pushed over the end.
    buckets: Vec<Bucket>,
    homes: usize,
    len: usize,
    secret: u64,
    multiplier: u64,
}

/// Most buckets from a block's own to where it lies. At the fullest, one in 2^40 would be that far away.
const MAX_DISTANCE: usize = 126;

/// 0 when empty; else, from the lowest bit: 16 bits of the mixed hash, 1 + distance from home in 7 bits, offset in the
/// run in 9 bits, number of the run in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket(u64);

const DISTANCE_ONE: u64 = 1 << 16;
const PLACE_SHIFT: u32 = 23;

impl Bucket {
    fn new(tag: u16, at: BlockAt) -> Self {
        let place = u64::from(at.run.0) << 9 | u64::from(at.offset & 511);
        Self(place << PLACE_SHIFT | DISTANCE_ONE | u64::from(tag))
    }

    fn at(self) -> BlockAt {
        let place = self.0 >> PLACE_SHIFT;
        BlockAt { run: RunId((place >> 9) as u32), offset: (place & 511) as u16 }
    }

    fn tag(self) -> u16 {
        self.0 as u16
    }

    /// 0 when empty, 1 at home.
    fn distance(self) -> usize {
        (self.0 >> 16 & 127) as usize
    }
}

impl BlockMap {
    pub(super) fn new(secret: u64) -> Self {
        /// Fractional part of the golden ratio: no pattern to its bits, so that a plain secret still mixes.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let multiplier = (secret.rotate_left(32) ^ GOLDEN) | 1;
        Self { buckets: Vec::new(), homes: 0, len: 0, secret, multiplier }
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Where `block` lies.
    pub(super) fn find(&self, block: SequenceHash, runs: &Runs) -> Option<BlockAt> {
        let (home, tag) = self.home_of(block);
        for (distance, bucket) in (1..).zip(self.buckets.get(home..)?) {
            if bucket.distance() < distance {
                return None;
            }
            if bucket.distance() == distance && bucket.tag() == tag && runs.hash_at(bucket.at()) == Some(block) {
                return Some(bucket.at());
            }
        }
        None
    }

    /// Makes room for `more` blocks. Call it while map and runs say the same.
    pub(super) fn reserve(&mut self, more: usize, runs: &Runs) {
        let needed = (self.len + more) * 8 / 7 + 1;
        if needed <= self.homes {
            return;
        }
        self.homes = needed.max(self.homes + self.homes / 2).max(64);
        self.len = 0;
        self.buckets = vec![Bucket::default(); self.homes + MAX_DISTANCE];
        for (id, run) in runs.iter() {
            for (offset, block) in (0..).zip(&run.hashes) {
                self.insert(*block, BlockAt { run: id, offset });
            }
        }
    }

    /// Adds a block that is not there yet; there must be room for it. `false` when it would come to lie too far from
    /// its home: no chance unless somebody knows the secret.
    pub(super) fn insert(&mut self, block: SequenceHash, at: BlockAt) -> bool {
        let (home, tag) = self.home_of(block);
        let Some(buckets) = self.buckets.get_mut(home..) else { return false };
        // Slots are in the order of their homes, so everything from the first one that is nearer to its home moves on.
        let Some(first) = (1..).zip(buckets.iter()).position(|(distance, bucket)| bucket.distance() < distance) else {
            return false;
        };
        let Some(buckets) = buckets.get_mut(first..) else { return false };
        let Some(free) = buckets.iter().position(|bucket| bucket.distance() == 0) else { return false };
        let Some(moved) = buckets.get_mut(..=free) else { return false };
        if first > MAX_DISTANCE || moved.iter().any(|bucket| bucket.distance() > MAX_DISTANCE) {
            return false;
        }
        let mut carried = Bucket(Bucket::new(tag, at).0 + first as u64 * DISTANCE_ONE);
        for bucket in moved {
            std::mem::swap(bucket, &mut carried);
            carried.0 = carried.0.wrapping_add(DISTANCE_ONE);
        }
        self.len += 1;
        true
    }

    /// Takes out the block that lies at `at`.
    pub(super) fn remove(&mut self, block: SequenceHash, at: BlockAt) {
        let (home, _) = self.home_of(block);
        let Some(buckets) = self.buckets.get_mut(home..) else { return };
        let found = (1..).zip(buckets.iter()).take_while(|(distance, bucket)| bucket.distance() >= *distance);
        let Some(found) = found.into_iter().position(|(_, bucket)| bucket.at() == at) else { return };
        // Everything behind it that is not at home moves back.
        let Some(buckets) = buckets.get_mut(found..) else { return };
        for next in 1.. {
            let follower = buckets.get(next).copied().filter(|bucket| bucket.distance() > 1);
            let Some(bucket) = buckets.get_mut(next - 1) else { break };
            let Some(follower) = follower else {
                *bucket = Bucket::default();
                break;
            };
            *bucket = Bucket(follower.0 - DISTANCE_ONE);
        }
        self.len -= 1;
    }

    /// Bucket a block belongs to, and its tag.
    fn home_of(&self, block: SequenceHash) -> (usize, u16) {
        let product = u128::from(block.0 ^ self.secret) * u128::from(self.multiplier);
        let mixed = (product as u64) ^ ((product >> 64) as u64);
        let home = (u128::from(mixed) * self.homes as u128) >> 64;
        (home as usize, mixed as u16)
    }
}

#[cfg(test)]
#[cfg(not(target_family = "wasm"))]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Mixed, as real ones are: numbers in a row would lie in rows, and some secrets lay rows onto one another.
    fn block(number: u64) -> SequenceHash {
        SequenceHash(xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes()))
    }

    /// Runs to verify against: block `n` is the first of run `n`.
    fn runs(count: u64) -> (Runs, Vec<BlockAt>) {
        let mut runs = Runs::default();
        let places = (0..count).map(|number| {
            let id = runs.start(block(number), None, None).unwrap();
            runs.get_mut(id).unwrap().hashes.push(block(number));
            BlockAt { run: id, offset: 0 }
        });
        let places = places.collect();
        (runs, places)
    }

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0_u64..300, any::<bool>()), 1..2000), secret in any::<u64>()) {
            let (runs, places) = runs(300);
            let mut map = BlockMap::new(secret);
            map.reserve(300, &Runs::default());
            let mut expected = HashMap::new();
            for (number, insert) in steps {
                let (block, at) = (block(number), places[number as usize]);
                match (insert, expected.contains_key(&number)) {
                    (true, false) => {
                        prop_assert!(map.insert(block, at));
                        expected.insert(number, at);
                    }
                    (false, true) => {
                        map.remove(block, at);
                        expected.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(map.len(), expected.len());
            }
            for number in 0..300 {
                prop_assert_eq!(map.find(block(number), &runs), expected.get(&number).copied());
            }
        }
    }

    #[test]
    fn a_full_table_keeps_blocks_near_their_homes_and_an_emptied_one_keeps_nothing() {
        let (runs, places) = runs(200_000);
        let mut map = BlockMap::new(5);
        map.reserve(places.len(), &Runs::default());
        for (number, at) in (0..).zip(&places) {
            assert!(map.insert(block(number), *at));
        }
        assert!(map.buckets.iter().map(|bucket| bucket.distance()).max().unwrap() < MAX_DISTANCE / 2);
        for (number, at) in (0..).zip(&places) {
            assert_eq!(map.find(block(number), &runs), Some(*at));
            map.remove(block(number), *at);
        }
        assert!(map.len() == 0 && map.buckets.iter().all(|bucket| *bucket == Bucket::default()));
    }

    /// Whoever knows the secret can make the table refuse blocks, but nothing worse.
    #[test]
    fn blocks_that_all_want_one_slot_are_refused_at_some_point() {
        let mut map = BlockMap::new(0);
        map.multiplier = 0;
        let (runs, places) = runs(400);
        map.reserve(places.len(), &Runs::default());
        let kept = (0..).zip(&places).filter(|(number, at)| map.insert(block(*number), **at)).count();
        assert_eq!(kept, MAX_DISTANCE + 1);
        assert_eq!((0..400).filter(|number| map.find(block(*number), &runs).is_some()).count(), kept);
    }
}
