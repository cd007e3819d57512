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
struct Entry<T> {
    key: u128,
    value: T,
    weight: u32,
    used: bool,
}

/// The map. Weights are bytes.
#[derive(Debug)]
pub(super) struct Clock<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
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
        Self { slots: Vec::new(), free: Vec::new(), index: HashMap::default(), hand: 0, weight: 0, bound, evictions: 0 }
    }

    /// The value of `key`, which counts as used.
    #[inline]
    pub(super) fn get(&mut self, key: u128) -> Option<&T> {
        let entry = self.slots.get_mut(*self.index.get(&key)? as usize)?.as_mut()?;
        entry.used = true;
        Some(&entry.value)
    }

    /// Adds or replaces; a value over a quarter of the bound is not kept.
    pub(super) fn insert(&mut self, key: u128, value: T, weight: u32) {
        let weight = weight.saturating_add(OVERHEAD);
        if u64::from(weight) > self.bound / 4 {
            return;
        }
        if let Some(place) = self.index.get(&key).copied() {
            self.remove(place as usize);
        }
        while self.weight + u64::from(weight) > self.bound && self.evict() {}
        let entry = Some(Entry { key, value, weight, used: false });
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let Ok(place) = u32::try_from(self.slots.len()) else { return };
                self.slots.push(None);
                place
            }
        };
        if let Some(slot) = self.slots.get_mut(place as usize) {
            *slot = entry;
            self.index.insert(key, place);
            self.weight += u64::from(weight);
        }
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Drops the next entry that was not used since the hand passed it; false when there is none at all.
    fn evict(&mut self) -> bool {
        // After one round nothing counts as used any more.
        for _ in 0..=2 * self.slots.len() {
            let place = self.hand;
            self.hand = if place + 1 >= self.slots.len() { 0 } else { place + 1 };
            match self.slots.get_mut(place) {
                Some(Some(entry)) if entry.used => entry.used = false,
                Some(Some(_)) => {
                    self.remove(place);
                    self.evictions += 1;
                    return true;
                }
                Some(None) | None => {}
            }
        }
        false
    }

    fn remove(&mut self, place: usize) {
        let Some(gone) = self.slots.get_mut(place).and_then(Option::take) else { return };
        self.index.remove(&gone.key);
        self.weight = self.weight.saturating_sub(u64::from(gone.weight));
        self.free.extend(u32::try_from(place));
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
            assert!(clock.index.contains_key(&key));
        }
        assert!(clock.evictions() > 900);
        assert_eq!(clock.get(2), None);
        assert_eq!(clock.slots.iter().flatten().count(), clock.index.len());
        assert_eq!(clock.weight(), clock.slots.iter().flatten().map(|entry| u64::from(entry.weight)).sum::<u64>());
        assert!(clock.slots.len() < 60, "freed slots are taken again: {}", clock.slots.len());
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
        let mut none = Clock::new(0);
        none.insert(1, 1, 0);
        assert_eq!(none.get(1), None);
    }
}
