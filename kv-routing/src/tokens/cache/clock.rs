//! A map of bounded weight that drops what was not used since the hand last came by.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

#[derive(Debug)]
struct Slot<T> {
    key: u128,
    value: T,
    weight: u32,
    used: bool,
}

/// The map. Weights are bytes.
#[derive(Debug)]
pub(super) struct Clock<T> {
    slots: Vec<Slot<T>>,
    index: HashMap<u128, u32, BuildHasherDefault<KeyHasher>>,
    hand: usize,
    weight: u64,
    bound: u64,
    evictions: u64,
}

/// Bytes of bookkeeping per entry: slot, index entry with its free share, allocator.
const OVERHEAD: u32 = 96;

impl<T> Clock<T> {
    pub(super) fn new(bound: u64) -> Self {
        Self { slots: Vec::new(), index: HashMap::default(), hand: 0, weight: 0, bound, evictions: 0 }
    }

    /// The value of `key`, which counts as used.
    #[inline]
    pub(super) fn get(&mut self, key: u128) -> Option<&T> {
        let slot = self.slots.get_mut(*self.index.get(&key)? as usize)?;
        slot.used = true;
        Some(&slot.value)
    }

    /// Adds or replaces; a value over a quarter of the bound is not kept.
    pub(super) fn insert(&mut self, key: u128, value: T, weight: u32) {
        let weight = weight.saturating_add(OVERHEAD);
        if u64::from(weight) > self.bound / 4 {
            return;
        }
        self.remove(key);
        while self.weight + u64::from(weight) > self.bound {
            self.evict();
        }
        let Ok(place) = u32::try_from(self.slots.len()) else { return };
        self.slots.push(Slot { key, value, weight, used: false });
        self.index.insert(key, place);
        self.weight += u64::from(weight);
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    fn evict(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            match self.slots.get_mut(self.hand) {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let key = slot.key;
                    self.evictions += 1;
                    return self.remove(key);
                }
                None => return,
            }
            self.hand += 1;
        }
    }

    /// Takes an entry out; the last slot moves to its place.
    fn remove(&mut self, key: u128) {
        let Some(place) = self.index.remove(&key) else { return };
        let last = self.slots.len().saturating_sub(1);
        if place as usize > last {
            return;
        }
        let gone = self.slots.swap_remove(place as usize);
        self.weight = self.weight.saturating_sub(u64::from(gone.weight));
        if let Some(moved) = self.slots.get(place as usize) {
            self.index.insert(moved.key, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let mut clock = Clock::new(10_000);
        clock.insert(1, "kept", 100);
        for key in 2..1000 {
            assert_eq!(clock.get(1), Some(&"kept"), "before {key}");
            clock.insert(key, "passing", 100);
            assert!(clock.weight() <= 10_000);
            assert_eq!(clock.get(key), Some(&"passing"));
        }
        assert!(clock.evictions() > 900);
        assert_eq!(clock.get(2), None);
        assert_eq!(clock.slots.len(), clock.index.len());
        assert_eq!(clock.weight(), clock.slots.iter().map(|slot| u64::from(slot.weight)).sum::<u64>());
    }

    #[test]
    fn replaces_and_refuses_giants() {
        let mut clock = Clock::new(10_000);
        clock.insert(1, 1, 10);
        clock.insert(1, 2, 10);
        assert_eq!(clock.get(1), Some(&2));
        assert_eq!(clock.weight(), 10 + u64::from(OVERHEAD));
        clock.insert(2, 3, 5000);
        assert_eq!(clock.get(2), None);
        Clock::new(0).insert(1, 1, 0);
    }
}
