//! What is lost for good.

use std::time::Instant;

use super::{Access, Era, History, MAX_CONTRADICTIONS, Origin, Recovery, Sequencer, Step};
use crate::ingest::{GapPolicy, Reason};

/// What an undecodable batch means for what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Keep,
    /// It must go.
    Clear,
    /// It must go, and everything after the batch with it: all of it will be replayed.
    BeginAnew,
}

impl Sequencer {
    /// Batches are lost. By policy everything known goes with them and `after` is what is known of the history then, or
    /// it is kept and doubted.
    pub(super) fn lose(&mut self, after: History, reason: Reason, steps: &mut Vec<Step>) {
        self.counters.losses += 1;
        match self.policy {
            GapPolicy::Clear => self.forget(after, steps),
            GapPolicy::Keep => self.begin_era(History::Doubtful(reason)),
        }
    }

    /// A replay could not be had, or something is in no replay either.
    pub(super) fn give_up(&mut self, recovery: &Recovery, now: Instant, steps: &mut Vec<Step>) {
        self.next_audit = self.next_regular_audit(now);
        let answered = recovery.top.is_some();
        self.unanswered = !answered;
        let reason = if answered { Reason::BatchesLost } else { Reason::ReplayUnanswered };
        self.drain(steps);
        let missing = self.held.first().is_some();
        if missing || (self.last.is_some() && !recovery.quiet && !answered) {
            // Only where nothing at all is known can the first batch held be the engine's first.
            let begins = self.last.is_none() && self.history == History::Unknown;
            let after = if begins { History::Unknown } else { History::Partial(reason) };
            self.lose(after, reason, steps);
        }
        if let Some((batch, is_live)) = self.held.take_first() {
            self.first(batch, is_live, steps);
            self.drain(steps);
        }
        if self.held.first().is_some() || self.held.take_overflowed() {
            self.check(false, None, now, steps);
        }
    }

    /// A replay and the live batches cannot come from the same process. Mostly a restart was caught halfway and the next
    /// replay is right; should it go on, the replay endpoint is another engine's and is left alone.
    pub(super) fn contradicted(&mut self, now: Instant, steps: &mut Vec<Step>) {
        self.contradictions += 1;
        self.recovery = None;
        self.held.clear();
        self.live = None;
        if self.contradictions <= MAX_CONTRADICTIONS {
            self.forget(History::Unknown, steps);
            return self.begin_anew(false, now, steps);
        }
        self.distrusted = true;
        self.counters.losses += 1;
        self.forget(History::Partial(Reason::ReplayContradicts), steps);
    }

    /// A batch could not be decoded: its number is used up and its content is lost, unless the replay buffer has it
    /// whole.
    pub(crate) fn undecodable(&mut self, origin: Origin) -> Verdict {
        if origin.era != self.era {
            self.counters.losses += 1;
            return Verdict::Keep;
        }
        if origin.is_live && self.uses_replay() && !self.garbled {
            return Verdict::BeginAnew;
        }
        self.counters.losses += 1;
        self.garbled = true;
        match self.policy {
            GapPolicy::Clear => {
                self.history = History::Partial(Reason::EventsLost);
                Verdict::Clear
            }
            GapPolicy::Keep => {
                self.history = History::Doubtful(Reason::EventsLost);
                Verdict::Keep
            }
        }
    }

    /// Forgets everything and asks for it again.
    pub(crate) fn forget_and_begin_anew(&mut self, now: Instant, steps: &mut Vec<Step>) {
        self.forget(History::Unknown, steps);
        self.begin_anew(false, now, steps);
    }

    /// Everything applied is forgotten, and not by our doing here. [`Self::replay_all`] asks for it again.
    pub(crate) fn void(&mut self) {
        self.begin_era(History::Unknown);
        self.held.clear();
        self.recovery = None;
    }

    /// Asks for everything, where that is possible and has not been done since it was voided.
    pub(crate) fn replay_all(&mut self, now: Instant, steps: &mut Vec<Step>) {
        if self.connected && self.uses_replay() && self.recovery.is_none() {
            self.begin_anew(false, now, steps);
        }
    }

    /// The engine emptied its cache: whatever was missing before does not matter any more. Whether anything was.
    pub(crate) fn heal(&mut self, era: Era) -> bool {
        if era != self.era {
            return false;
        }
        std::mem::replace(&mut self.history, History::Complete) != History::Complete
    }

    /// A message could not be read, or had no room: nobody knows whether it was a batch.
    pub(crate) fn unread(&mut self, now: Instant, steps: &mut Vec<Step>) {
        match self.access {
            Access::Polled => self.note_lost(),
            Access::Replay if self.uses_replay() => match &mut self.recovery {
                Some(recovery) => {
                    recovery.quiet = false;
                    self.held.refuse();
                }
                None if self.connected => self.check(false, None, now, steps),
                None => {}
            },
            Access::Live | Access::Replay => self.doubt(Reason::EventsLost),
        }
    }

    /// The engine is another process than when it was last asked, at `before`.
    pub(crate) fn process_changed(&mut self, before: Instant, now: Instant, steps: &mut Vec<Step>) {
        if self.noticed.is_none_or(|noticed| noticed >= before) {
            return;
        }
        self.noticed = Some(now);
        match self.access {
            Access::Polled => self.note_unreached(),
            Access::Replay if self.uses_replay() => self.unread(now, steps),
            Access::Live | Access::Replay => {
                self.counters.restarts += 1;
                self.forget(History::Unknown, steps);
            }
        }
    }

    /// Something about what is known now is not sure, whatever batch it is of.
    pub(crate) fn doubt(&mut self, reason: Reason) {
        self.weaken(self.era, reason);
    }

    /// Something of an applied batch is lost although the batch is not.
    pub(crate) fn weaken(&mut self, era: Era, reason: Reason) {
        if era == self.era && matches!(self.history, History::Complete | History::Unknown) {
            self.history = History::Partial(reason);
        }
    }
}
