//! Events fetched from an engine's own buffer: each answer empties it, so nothing is ever sent twice and nothing can be
//! asked for again. Numbers alone tell what happened.

use std::time::Instant;

use super::{Batch, History, Sequencer, Step};
use crate::ingest::Reason;

/// What may have happened since the last event; the next event's number decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outage {
    /// The engine could not be reached, so another process may be there now.
    unreached: bool,
    /// An answer did not arrive, or not whole, and the engine has forgotten what was in it.
    answer_lost: bool,
}

impl Outage {
    pub(super) fn is_over(self) -> bool {
        self == Self::default()
    }
}

impl Sequencer {
    /// The engine could not be reached, or is said to be another process than before.
    pub(super) fn note_unreached(&mut self) {
        self.outage.unreached = true;
    }

    /// Events are lost on their way, or may be.
    pub(super) fn note_lost(&mut self) {
        self.outage.answer_lost = true;
    }

    /// An answer is lost, and the connection with it.
    pub(crate) fn answer_lost(&mut self) {
        self.connected = false;
        self.note_lost();
    }

    /// The next event of the buffer.
    pub(super) fn polled(&mut self, event: Batch, now: Instant, steps: &mut Vec<Step>) {
        let Outage { unreached, answer_lost } = std::mem::take(&mut self.outage);
        match self.last_seq() {
            None => {
                self.noticed = Some(now);
                self.first(event, true, steps);
            }
            // Nothing comes twice, so a number that does not grow is another process's.
            Some(last) if event.seq <= last => {
                self.counters.restarts += 1;
                self.noticed = Some(now);
                self.forget(History::Unknown, steps);
                self.first(event, true, steps);
            }
            // A new process may by chance have lost as many events as the former one had counted.
            Some(last) if event.seq == last.saturating_add(1) && !(unreached && answer_lost) => {
                self.apply(event, true, steps);
            }
            Some(_) => {
                self.counters.gaps += 1;
                self.lose(History::Partial(Reason::BatchesLost), Reason::BatchesLost, steps);
                self.first(event, true, steps);
            }
        }
    }
}
