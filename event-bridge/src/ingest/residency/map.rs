//! Maps keyed by an engine's block hashes.
//!
//! An open table whose entries lie in the order of their mixed keys, so that a search ends at the first larger one. It
//! leaves no marks where something was removed: engines store and evict all day, and a table that has to be cleaned of
//! such marks doubles for it at some time, two hundred of them in the same minute.

use crate::engine::EngineHash;

/// Mixes keys that are hashes already, with one multiplication. A secret factor keeps whoever can choose prompts from
/// piling their blocks into one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(u64);

impl Keyed {
    pub(super) fn new(secret: u64) -> Self {
        /// Fractional part of the golden ratio, so that a plain secret still mixes.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        Self((secret.rotate_left(31) ^ GOLDEN) | 1)
    }

    fn mix(self, key: EngineHash) -> u64 {
        let product = u128::from(key.0) * u128::from(self.0);
        (product as u64) ^ ((product >> 64) as u64)
    }
}

/// From an engine's hash to something. Named as the standard library names its maps' methods.
#[derive(Debug)]
pub(super) struct EngineMap<V> {
    keyed: Keyed,
    /// An entry's place by its key lies among the first `homes`; behind them is what was pushed over their end.
    entries: Vec<Option<(EngineHash, V)>>,
    homes: usize,
    len: usize,
}

/// Of the homes at most so many are taken: seven of eight.
const FULL: (usize, usize) = (7, 8);

/// Places kept behind so many homes, for what is pushed over their end.
fn behind(homes: usize) -> usize {
    homes / 64 + 32
}

impl<V> EngineMap<V> {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { keyed, entries: Vec::new(), homes: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory, without what values point to.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Option<(EngineHash, V)>>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&EngineHash, &V)> {
        self.entries.iter().flatten().map(|(key, value)| (key, value))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(super) fn contains_key(&self, key: &EngineHash) -> bool {
        self.find(*key).is_ok()
    }

    pub(super) fn get(&self, key: &EngineHash) -> Option<&V> {
        let at = self.find(*key).ok()?;
        self.entries.get(at)?.as_ref().map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &EngineHash) -> Option<&mut V> {
        let at = self.find(*key).ok()?;
        self.entries.get_mut(at)?.as_mut().map(|(_, value)| value)
    }

    /// Sets a value and returns the one it replaces.
    pub(super) fn insert(&mut self, key: EngineHash, value: V) -> Option<V> {
        match self.find(key) {
            Ok(at) => {
                let old = self.entries.get_mut(at)?.replace((key, value));
                old.map(|(_, value)| value)
            }
            Err(at) => {
                self.add(at, key, value);
                None
            }
        }
    }

    /// The value of `key`, made when it has none.
    pub(super) fn get_or_insert_with(&mut self, key: EngineHash, make: impl FnOnce() -> V) -> Option<&mut V> {
        let at = match self.find(key) {
            Ok(at) => at,
            Err(at) => self.add(at, key, make()),
        };
        self.entries.get_mut(at)?.as_mut().map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &EngineHash) -> Option<V> {
        let at = self.find(*key).ok()?;
        let removed = self.entries.get_mut(at)?.take();
        self.len -= 1;
        // Everything behind it that is not at home moves back.
        for next in at + 1.. {
            let Some(Some((follower, _))) = self.entries.get(next) else { break };
            if self.home_of(self.keyed.mix(*follower)) == next {
                break;
            }
            self.entries.swap(next - 1, next);
        }
        removed.map(|(_, value)| value)
    }

    fn home_of(&self, mixed: u64) -> usize {
        ((u128::from(mixed) * self.homes as u128) >> 64) as usize
    }

    /// Where `key` lies, or where it belongs.
    fn find(&self, key: EngineHash) -> Result<usize, usize> {
        let mixed = self.keyed.mix(key);
        let home = self.home_of(mixed);
        let entries = self.entries.get(home..).unwrap_or_default();
        for (at, entry) in (home..).zip(entries) {
            match entry {
                Some((other, _)) if *other == key => return Ok(at),
                Some((other, _)) if self.keyed.mix(*other) <= mixed => {}
                _ => return Err(at),
            }
        }
        Err(home + entries.len())
    }

    /// Puts an entry that is not there yet where [`Self::find`] says it belongs. Returns where it lies.
    fn add(&mut self, at: usize, key: EngineHash, value: V) -> usize {
        let at = if (self.len + 1) * FULL.1 > self.homes * FULL.0 {
            self.grow();
            self.find(key).unwrap_or_else(|at| at)
        } else {
            at
        };
        self.push(at, key, value);
        at
    }

    fn push(&mut self, at: usize, key: EngineHash, value: V) {
        let mut carried = Some((key, value));
        for entry in self.entries.get_mut(at..).unwrap_or_default() {
            std::mem::swap(entry, &mut carried);
            if carried.is_none() {
                break;
            }
        }
        if carried.is_some() {
            self.entries.push(carried);
        }
        self.len += 1;
    }

    /// Half as many places again. In order the entries are laid out from the first to the last, each at its home or behind
    /// the one before.
    fn grow(&mut self) {
        self.homes = (self.homes + self.homes / 2).max(16);
        let old = std::mem::take(&mut self.entries);
        self.entries.reserve_exact(self.homes + behind(self.homes));
        for entry in old.into_iter().flatten() {
            let home = self.home_of(self.keyed.mix(entry.0));
            while self.entries.len() < home {
                self.entries.push(None);
            }
            self.entries.push(Some(entry));
        }
        while self.entries.len() < self.homes {
            self.entries.push(None);
        }
    }
}

impl<V> Extend<(EngineHash, V)> for EngineMap<V> {
    fn extend<I: IntoIterator<Item = (EngineHash, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Make(u64, u32),
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few keys, so that they meet; and neighbours, so that they lie close to each other.
        let key =
            prop_oneof![0_u64..200, (0_u64..40).prop_map(|key| u64::MAX - key), (0_u64..40).prop_map(|key| key << 58)];
        (key, any::<u32>(), 0..3).prop_map(|(key, value, kind)| match kind {
            0 => Step::Insert(key, value),
            1 => Step::Make(key, value),
            _ => Step::Remove(key),
        })
    }

    proptest! {
        #[test]
        fn equals_a_hash_map(secret in any::<u64>(), steps in prop::collection::vec(step(), 0..1500)) {
            let mut map = EngineMap::new(Keyed::new(secret));
            let mut truth = HashMap::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(map.insert(EngineHash(key), value), truth.insert(key, value));
                    }
                    Step::Make(key, value) => {
                        let made = map.get_or_insert_with(EngineHash(key), || value).copied();
                        prop_assert_eq!(made, Some(*truth.entry(key).or_insert(value)));
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&EngineHash(key)), truth.remove(&key)),
                }
                prop_assert_eq!(map.len(), truth.len());
            }
            for (key, value) in &truth {
                prop_assert_eq!(map.get(&EngineHash(*key)), Some(value));
            }
            let all: HashMap<u64, u32> = map.iter().map(|(key, value)| (key.0, *value)).collect();
            prop_assert_eq!(all, truth);
        }
    }

    /// A cache that is full stores and evicts for ever in the memory it has.
    #[test]
    fn stays_as_large_as_it_is() {
        let key = |number: u64| EngineHash(number.wrapping_mul(0xd134_2543_de82_ef95));
        let mut map = EngineMap::new(Keyed::new(3));
        map.extend((0..20_000).map(|number| (key(number), number)));
        let bytes = map.bytes();
        for number in 20_000..2_000_000 {
            map.insert(key(number), number);
            assert_eq!(map.remove(&key(number - 20_000)), Some(number - 20_000));
        }
        assert_eq!((map.len(), map.bytes()), (20_000, bytes));
    }
}
