//! Replays: asking, verifying, merging.

use std::time::Instant;

use super::{Batch, History, MAX_ATTEMPTS, Mark, REPLAY_TIMEOUT, Recovery, SETTLE, Sequencer, Step};
use crate::ingest::Reason;
use crate::stream::ReplayId;

impl Sequencer {
    /// Asks whether the process followed is still the same and what was missed: from the last applied batch on, or from
    /// the beginning when there is none. `witness` is a live batch with a lower number, which must be in the answer too.
    pub(super) fn check(&mut self, quiet: bool, witness: Option<u64>, now: Instant, steps: &mut Vec<Step>) {
        self.counters.checks += 1;
        let mut recovery = Recovery::new(now);
        self.verify_in(&mut recovery);
        recovery.quiet = quiet;
        recovery.from = witness.map_or(recovery.from, |witness| witness.min(recovery.from));
        self.ask(recovery, now, steps);
    }

    /// Has a replay begin with what proves that its process is the one followed: the last batch applied, the batch that live ones
    /// were put on, and, unless the sockets were seen to agree, the newest one of the live socket.
    fn verify_in(&self, recovery: &mut Recovery) {
        recovery.junction = self.junction;
        recovery.newest = self.newest.filter(|_| !self.confirmed);
        let mut unmet: Vec<Mark> = [self.junction, recovery.newest, self.last].into_iter().flatten().collect();
        unmet.sort_unstable_by_key(|mark| std::cmp::Reverse(mark.seq));
        unmet.dedup();
        recovery.from = unmet.last().map_or(0, |mark| mark.seq);
        recovery.unmet = unmet;
    }

    /// Asks for everything from the beginning. With `clear_first`, what is known goes when the first batch comes.
    pub(super) fn begin_anew(&mut self, clear_first: bool, now: Instant, steps: &mut Vec<Step>) {
        let mut recovery = Recovery::new(now);
        recovery.clear_first = clear_first;
        self.ask(recovery, now, steps);
    }

    fn ask(&mut self, mut recovery: Recovery, now: Instant, steps: &mut Vec<Step>) {
        self.next_id += 1;
        recovery.id = ReplayId(self.next_id);
        recovery.heard = now;
        recovery.progress = false;
        recovery.agrees = false;
        recovery.top = None;
        recovery.live_before = self.live;
        steps.push(Step::Replay { id: recovery.id, from: recovery.from });
        self.recovery = Some(recovery);
    }

    /// A batch of a replay.
    pub(crate) fn replayed(&mut self, id: ReplayId, batch: Batch, now: Instant, steps: &mut Vec<Step>) {
        let Some(recovery) = self.recovery.as_mut().filter(|recovery| recovery.id == id) else { return };
        recovery.heard = now;
        if batch.seq < recovery.from {
            return;
        }
        recovery.top = recovery.top.max(Some(batch.seq));
        let mut is_live = false;
        match self.held.compare(&batch) {
            Some(true) => {
                is_live = self.held.is_live(batch.seq);
                self.held.meet(batch.seq);
            }
            Some(false) => return self.contradicted(now, steps),
            None => {}
        }
        recovery.agrees |= is_live || recovery.newest == Some(batch.mark());
        if std::mem::take(&mut recovery.clear_first) {
            self.forget(History::Unknown, steps);
        }
        if self.applied(batch.seq).is_some_and(|applied| applied != batch.mark()) {
            return self.restarted(now, steps);
        }
        if !self.witnessed(batch.mark()) {
            // What was missed is gone from its buffer; should it be another process, that cannot be seen.
            self.lose(History::Unknown, Reason::BatchesLost, steps);
            return self.begin_anew(false, now, steps);
        }
        self.merge(batch, is_live, steps);
    }

    /// Another process answers.
    fn restarted(&mut self, now: Instant, steps: &mut Vec<Step>) {
        self.counters.restarts += 1;
        self.forget(History::Unknown, steps);
        self.begin_anew(false, now, steps);
    }

    /// Takes a batch of a replay as a witness. False when it shows that one was left out which was applied.
    fn witnessed(&mut self, mark: Mark) -> bool {
        let Some(recovery) = &mut self.recovery else { return false };
        if recovery.unmet.last() == Some(&mark) {
            recovery.unmet.pop();
        }
        if let Some(unmet) = recovery.unmet.last() {
            return mark.seq < unmet.seq;
        }
        self.confirmed |= recovery.agrees;
        // Live batches may have been put on the last one of a replay since the request was made.
        self.junction = self.junction.filter(|junction| recovery.junction != Some(*junction));
        true
    }

    /// A batch of the process followed, or of one that nothing is known of. `is_live`: the live socket had the same.
    fn merge(&mut self, batch: Batch, is_live: bool, steps: &mut Vec<Step>) {
        let mark = batch.mark();
        if self.last.is_none() && batch.seq == 0 && matches!(self.history, History::Doubtful(_)) {
            // The engine still has everything: nothing doubtful need be kept.
            self.forget(History::Unknown, steps);
        }
        let is_new = match self.next() {
            Some(next) if batch.seq < next => false,
            Some(next) if batch.seq > next => self.held.keep(batch, false),
            Some(_) => {
                self.apply(batch, false, steps);
                true
            }
            None => {
                self.first(batch, false, steps);
                true
            }
        };
        if let Some(recovery) = &mut self.recovery {
            recovery.progress |= is_new;
        }
        self.last_was_live |= is_live && self.last == Some(mark);
    }

    /// A replay is over; `complete` when the engine said so.
    pub(crate) fn replay_ended(&mut self, id: ReplayId, complete: bool, now: Instant, steps: &mut Vec<Step>) {
        let Some(recovery) = self.recovery.take_if(|recovery| recovery.id == id) else { return };
        if !recovery.unmet.is_empty() {
            if !complete {
                return self.ask_again(recovery, now, steps);
            }
            // The last batch is not in its buffer, which keeps the newest: another process.
            return self.restarted(now, steps);
        }
        if complete && let Some(stray) = self.last_seq().and_then(|last| self.held.take_stray(last)) {
            // Perhaps another process took over behind the replay just merged; it would not have the last batch.
            return self.check(false, Some(stray), now, steps);
        }
        let missed = recovery.live_before.filter(|live| *live >= recovery.from && recovery.top < Some(*live));
        if complete && missed.is_some() && !recovery.progress {
            return self.contradicted(now, steps);
        }
        if complete && self.history == History::Unknown {
            // It has published nothing yet.
            self.history = History::Complete;
        }
        self.drain(steps);
        if complete && missed.is_none() && self.held.first().is_none() {
            self.settled(recovery.quiet, now, steps);
        } else {
            self.ask_again(recovery, now, steps);
        }
    }

    /// No answer, no end marker, or something still missing.
    fn ask_again(&mut self, mut recovery: Recovery, now: Instant, steps: &mut Vec<Step>) {
        recovery.attempts = if recovery.progress { 0 } else { recovery.attempts + 1 };
        if recovery.attempts >= MAX_ATTEMPTS {
            return self.give_up(&recovery, now, steps);
        }
        if self.last.is_some() && !recovery.clear_first {
            self.verify_in(&mut recovery);
        }
        self.ask(recovery, now, steps);
    }

    /// Applies held batches as far as they follow on.
    pub(super) fn drain(&mut self, steps: &mut Vec<Step>) {
        if let Some(last) = self.last_seq() {
            self.held.drop_to(last);
        }
        while let Some((batch, is_live)) = self.next().and_then(|next| self.held.take(next)) {
            self.apply(batch, is_live, steps);
        }
    }

    /// Everything asked for was answered.
    fn settled(&mut self, was_quiet: bool, now: Instant, steps: &mut Vec<Step>) {
        if self.confirmed {
            self.contradictions = 0;
        }
        let is_settled = was_quiet && self.junction.is_none();
        self.next_audit = if is_settled { self.next_regular_audit(now) } else { Some(now + SETTLE) };
        let was_unanswered = std::mem::take(&mut self.unanswered);
        if self.held.take_overflowed() {
            self.check(false, None, now, steps);
        } else if was_unanswered && self.history != History::Complete {
            // The replay endpoint is back: what it still has is more than what is left here.
            self.begin_anew(true, now, steps);
        }
    }

    pub(super) fn next_regular_audit(&self, now: Instant) -> Option<Instant> {
        (!self.audit_every.is_zero()).then(|| now + self.audit_every)
    }

    /// What is due by time alone.
    pub(crate) fn tick(&mut self, now: Instant, steps: &mut Vec<Step>) {
        if let Some(recovery) = &self.recovery {
            if now.saturating_duration_since(recovery.heard) > REPLAY_TIMEOUT {
                self.replay_ended(recovery.id, false, now, steps);
            }
        } else if self.connected && self.uses_replay() && self.next_audit.is_some_and(|due| due <= now) {
            self.next_audit = self.next_regular_audit(now);
            self.check(true, None, now, steps);
        }
    }
}
