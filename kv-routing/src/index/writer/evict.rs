//! Staying within bounds: the least recently stored leaf runs go first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::PrefixIndex;
use crate::index::pages::Pressure;
use crate::index::run::{Run, RunId, RunRef, Runs};

impl PrefixIndex {
    /// Drops what exceeds the bounds, or doubles the pages. Returns how many blocks went.
    pub(super) fn keep_bounds(&mut self) -> u32 {
        let before = self.blocks.len();
        while self.blocks.len() as u64 > self.max_blocks {
            let Some(id) = self.queue.pop_oldest(&mut self.runs) else { break };
            let keep = self.runs.get(id).map_or(0, |run| run.branched);
            self.cut(id, keep);
        }
        while let Some(pressure) = self.pages.pressure() {
            match pressure {
                Pressure::Grow => self.pages.grow(&self.runs),
                Pressure::Shed(page) => self.shed(page),
            }
        }
        self.queue.tidy(&self.runs);
        let evicted = before.saturating_sub(self.blocks.len());
        self.evicted_blocks += evicted as u64;
        u32::try_from(evicted).unwrap_or(u32::MAX)
    }

    /// Drops the least recently stored runs of an overfull page. Only prompts made to fall into one page lead here, so
    /// it does not matter that such a run may have others behind it.
    fn shed(&mut self, page: u32) {
        while self.pages.must_shed(page) {
            let runs = self.pages.runs(page).iter().filter_map(|id| Some((self.runs.get(*id)?.stored, *id)));
            let Some((_, oldest)) = runs.min() else { return };
            self.cut(oldest, 0);
        }
    }

    fn cut(&mut self, id: RunId, keep: u16) {
        if let Some(run) = self.runs.get_mut(id) {
            let losers = run.holders.iter().filter(|holder| holder.extent() > keep);
            self.bereft.extend(losers.map(|holder| holder.slot));
            let (lost, change) = run.cut(keep);
            self.after_loss(id, &lost, change);
        }
    }
}

/// Runs by the time of their last store. A store does not reorder anything: an entry may be older than its run, and is
/// put right when it comes up.
#[derive(Debug, Default)]
pub(super) struct EvictionQueue(BinaryHeap<Reverse<(u64, RunRef)>>);

impl EvictionQueue {
    /// Makes sure that `run` comes up in its time.
    pub(super) fn enter(&mut self, weak: RunRef, run: &mut Run) {
        if run.queued.is_none() {
            run.queued = Some(run.stored);
            self.0.push(Reverse((run.stored, weak)));
        }
    }

    /// The least recently stored run that has blocks behind its last branch. A run without any leaves the queue; it
    /// comes back when it is stored into or loses its last child.
    fn pop_oldest(&mut self, runs: &mut Runs) -> Option<RunId> {
        while let Some(Reverse((queued, weak))) = self.0.pop() {
            let Some(run) = runs.upgrade_mut(weak) else { continue };
            if run.queued != Some(queued) {
                continue;
            }
            run.queued = None;
            if run.stored != queued {
                self.enter(weak, run);
            } else if run.len() > run.branched {
                return Some(weak.id);
            }
        }
        None
    }

    /// Forgets runs that ended by themselves, once they are the larger part.
    fn tidy(&mut self, runs: &Runs) {
        /// Entries that are not worth the trouble.
        const SLACK: usize = 1024;
        if self.0.len() > 2 * runs.len() + SLACK {
            self.0.retain(|Reverse((queued, weak))| runs.upgrade(*weak).is_some_and(|run| run.queued == Some(*queued)));
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Reverse<(u64, RunRef)>>()
    }
}
