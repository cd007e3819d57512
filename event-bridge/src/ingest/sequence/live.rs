//! Connections and live batches.

use std::time::Instant;

use super::{Access, Batch, History, SETTLE, Sequencer, Step};
use crate::ingest::Reason;

impl Sequencer {
    /// A new connection. Nothing says that the process at its other end is the one that was followed before.
    pub(crate) fn connected(&mut self, now: Instant, steps: &mut Vec<Step>) {
        let is_first = !std::mem::replace(&mut self.ever_connected, true);
        self.connected = true;
        if self.access != Access::Polled {
            self.noticed = Some(now);
        }
        self.live = None;
        self.newest = None;
        // Batches of the former connection are in the replay buffer if they are still worth anything.
        self.held.clear();
        self.recovery = None;
        self.contradictions = 0;
        self.confirmed = false;
        self.distrusted = false;
        self.garbled = false;
        self.last_was_live = false;
        match self.access {
            Access::Replay => self.check(false, None, now, steps),
            Access::Live if !is_first => self.lose(History::Unknown, Reason::BatchesLost, steps),
            Access::Live | Access::Polled => {}
        }
    }

    pub(crate) fn disconnected(&mut self) {
        self.connected = false;
        if self.access == Access::Polled {
            self.note_unreached();
        }
    }

    /// A live batch.
    pub(crate) fn live(&mut self, batch: Batch, now: Instant, steps: &mut Vec<Step>) {
        if self.access == Access::Polled {
            return self.polled(batch, now, steps);
        }
        self.schedule_audit(now);
        if self.held.compare(&batch) == Some(true) || self.is_known(batch.mark()) {
            self.counters.duplicates += 1;
            self.last_was_live |= self.last == Some(batch.mark());
            if self.is_known(batch.mark()) {
                self.newest = Some(batch.mark());
            }
            return;
        }
        let before = self.live.replace(batch.seq);
        let went_back = before.is_some_and(|before| batch.seq <= before);
        let follows = self.next() == Some(batch.seq);
        match self.recovery.as_mut() {
            Some(recovery) if recovery.quiet && follows && !went_back => self.apply(batch, true, steps),
            // Numbers went back although nobody hung up: ask the process that speaks now.
            Some(_) if went_back => {
                self.held.clear();
                self.ask_about(batch, now, steps);
            }
            Some(recovery) => {
                recovery.quiet = false;
                self.held.keep(batch, true);
            }
            None if follows => self.apply(batch, true, steps),
            None => {
                self.counters.gaps += u64::from(self.next().is_some());
                if self.uses_replay() {
                    self.ask_about(batch, now, steps)
                } else {
                    self.live_without_replay(batch, steps)
                }
            }
        }
    }

    /// A batch that does not follow: what is before it, or instead of it?
    fn ask_about(&mut self, batch: Batch, now: Instant, steps: &mut Vec<Step>) {
        let witness = batch.seq;
        self.held.keep(batch, true);
        self.held.meet(witness);
        self.check(false, Some(witness), now, steps);
    }

    /// A batch that does not follow, when nobody can be asked.
    fn live_without_replay(&mut self, batch: Batch, steps: &mut Vec<Step>) {
        if let Some(next) = self.next() {
            let began_anew = History::Unknown;
            let history = if batch.seq < next { began_anew } else { History::Partial(Reason::BatchesLost) };
            self.lose(history, Reason::BatchesLost, steps);
        }
        self.first(batch, true, steps);
    }

    /// The first batch of a process that nothing else is known of.
    pub(super) fn first(&mut self, batch: Batch, is_live: bool, steps: &mut Vec<Step>) {
        if self.history == History::Unknown {
            let came_late = History::Partial(Reason::HistoryTrimmed);
            self.history = if batch.seq == 0 { History::Complete } else { came_late };
        }
        self.apply(batch, is_live, steps);
    }

    /// Audits are for quiet streams; one is due early as long as replay and live batches were not seen to agree.
    fn schedule_audit(&mut self, now: Instant) {
        let soon = now + SETTLE;
        self.next_audit = match self.next_audit {
            _ if self.is_one_process() => self.next_regular_audit(now),
            Some(due) => Some(due.min(soon)),
            None => Some(soon),
        };
    }
}
