//! Which runs a target holds some of, so that clearing or dumping one target does not look at all runs.

use crate::index::run::{RunRef, Runs};
use crate::target::Slot;

/// Runs by slot. Entries of runs that a target no longer holds stay until they outnumber the others.
#[derive(Debug, Default)]
pub(super) struct Holdings(Vec<SlotRuns>);

#[derive(Clone, Debug, Default)]
struct SlotRuns {
    runs: Vec<RunRef>,
    held: usize,
}

impl Holdings {
    /// `slot` has become a holder of `run`.
    pub(super) fn gain(&mut self, slot: Slot, run: RunRef, runs: &Runs) {
        /// Stale entries that are not worth the trouble.
        const SLACK: usize = 32;
        let at = usize::from(slot.0);
        if at >= self.0.len() {
            self.0.resize(at + 1, SlotRuns::default());
        }
        let Some(of) = self.0.get_mut(at) else { return };
        of.runs.push(run);
        of.held += 1;
        if of.runs.len() > 2 * of.held + SLACK {
            of.tidy(slot, runs);
        }
    }

    /// `slot` has ceased to be a holder of some run.
    pub(super) fn lose(&mut self, slot: Slot) {
        if let Some(of) = self.0.get_mut(usize::from(slot.0)) {
            of.held = of.held.saturating_sub(1);
        }
    }

    /// Every run `slot` holds some of, each once.
    pub(super) fn runs(&mut self, slot: Slot, runs: &Runs) -> Vec<RunRef> {
        let Some(of) = self.0.get_mut(usize::from(slot.0)) else { return Vec::new() };
        of.tidy(slot, runs);
        of.runs.clone()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let lists: usize = self.0.iter().map(|of| of.runs.capacity() * size_of::<RunRef>()).sum();
        lists + self.0.capacity() * size_of::<SlotRuns>()
    }
}

impl SlotRuns {
    fn tidy(&mut self, slot: Slot, runs: &Runs) {
        self.runs.retain(|run| runs.upgrade(*run).is_some_and(|run| run.holder(slot).is_some()));
        self.runs.sort_unstable();
        self.runs.dedup();
        self.runs.shrink_to(self.runs.len() * 2);
    }
}
