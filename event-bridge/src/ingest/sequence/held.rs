//! Live batches held back while a replay runs, and replayed ones behind a hole.

use std::collections::BTreeMap;

use super::Batch;

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    batches: BTreeMap<u64, Entry>,
    bytes: usize,
    max_bytes: usize,
    /// A batch was refused, so something after the held ones is missing.
    overflowed: bool,
}

/// A batch that is held.
#[derive(Debug)]
struct Entry {
    batch: Batch,
    /// It came from the live socket.
    is_live: bool,
    /// A replay had the same, or was asked for since it came.
    is_met: bool,
}

/// Bytes of memory of a batch that is held, its place in the map and its allocation included.
fn weight(batch: &Batch) -> usize {
    /// Beside the payload: key, batch and flag in a tree that is two thirds full, and the payload's own allocation.
    const OVERHEAD: usize = 184;
    batch.payload.len() + OVERHEAD
}

impl Held {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { batches: BTreeMap::new(), bytes: 0, max_bytes, overflowed: false }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops everything, as if there had been no room for it.
    pub(super) fn shed(&mut self) {
        self.clear();
        self.refuse();
    }

    /// Keeps a batch, unless there is no room or one of that number is held. Returns whether it was kept.
    pub(super) fn keep(&mut self, batch: Batch, is_live: bool) -> bool {
        if self.batches.contains_key(&batch.seq) {
            return false;
        }
        if self.bytes + weight(&batch) > self.max_bytes {
            self.refuse();
            return false;
        }
        self.bytes += weight(&batch);
        self.batches.insert(batch.seq, Entry { batch, is_live, is_met: false });
        true
    }

    /// Lowest of the live batches up to `last` that no replay had and that nobody was asked about, which is taken as done from now on.
    /// A process that died while its replay was merged leaves such batches of its successor.
    pub(super) fn take_stray(&mut self, last: u64) -> Option<u64> {
        let mut lowest = None;
        for (seq, entry) in self.batches.range_mut(..=last).filter(|(_, entry)| entry.is_live && !entry.is_met) {
            entry.is_met = true;
            lowest = lowest.or(Some(*seq));
        }
        lowest
    }

    /// Somebody is asked about batch `seq`.
    pub(super) fn meet(&mut self, seq: u64) {
        if let Some(entry) = self.batches.get_mut(&seq) {
            entry.is_met = true;
        }
    }

    /// Something that could not be kept is missing behind the held ones.
    pub(super) fn refuse(&mut self) {
        self.overflowed = true;
    }

    /// Whether the batch held under this one's number is the same; `None` when there is none.
    pub(super) fn compare(&self, batch: &Batch) -> Option<bool> {
        self.batches.get(&batch.seq).map(|held| held.batch.digest == batch.digest)
    }

    /// Whether batch `seq` is held and came from the live socket.
    pub(super) fn is_live(&self, seq: u64) -> bool {
        self.batches.get(&seq).is_some_and(|held| held.is_live)
    }

    /// Takes batch `seq` out, with whether it came from the live socket.
    pub(super) fn take(&mut self, seq: u64) -> Option<(Batch, bool)> {
        let Entry { batch, is_live, .. } = self.batches.remove(&seq)?;
        self.bytes = self.bytes.saturating_sub(weight(&batch));
        Some((batch, is_live))
    }

    /// Takes out the batch with the lowest number, like [`Held::take`].
    pub(super) fn take_first(&mut self) -> Option<(Batch, bool)> {
        self.first().and_then(|first| self.take(first))
    }

    /// Drops everything up to `seq`.
    pub(super) fn drop_to(&mut self, seq: u64) {
        while let Some(first) = self.first().filter(|first| *first <= seq) {
            self.take(first);
        }
    }

    /// Lowest number held.
    pub(super) fn first(&self) -> Option<u64> {
        self.batches.keys().next().copied()
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
        self.overflowed = false;
    }

    /// Whether something was refused since the last call.
    pub(super) fn take_overflowed(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }
}
