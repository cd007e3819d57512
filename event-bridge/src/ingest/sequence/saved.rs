//! A stream's place across a restart of the bridge.

use super::{Access, History, Mark, Sequencer};
use crate::ingest::Reason;

impl Sequencer {
    /// Number and digest of the last batch applied, and whether everything before it was; `None` while that is in doubt, or
    /// when nobody could be asked for that batch again.
    pub(crate) fn save(&self) -> Option<((u64, u64), bool)> {
        let in_doubt = self.recovery.as_ref().is_some_and(|recovery| !recovery.quiet);
        if in_doubt || self.junction.is_some() || self.distrusted || self.access != Access::Replay {
            return None;
        }
        let complete = match self.history {
            History::Complete => true,
            History::Partial(Reason::HistoryTrimmed) => false,
            History::Partial(_) | History::Unknown | History::Doubtful(_) => return None,
        };
        self.last.map(|Mark { seq, digest }| ((seq, digest), complete))
    }

    /// Takes over a place before the first connection. The engine is asked for that batch like after any lost connection, so
    /// that nothing counts as known before it has shown it.
    pub(crate) fn restore(&mut self, (seq, digest): (u64, u64), complete: bool) -> bool {
        if self.ever_connected || self.access != Access::Replay {
            return false;
        }
        self.last = Some(Mark { seq, digest });
        self.history = if complete { History::Complete } else { History::Partial(Reason::HistoryTrimmed) };
        true
    }
}
