//! What order alone says about a source.

use super::{History, Sequencer};
use crate::ingest::Reason;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing was ever heard.
    None(Reason),
    /// Everything was applied.
    Exact,
    /// Something is missing.
    Warm(Reason),
    /// What is known may be wrong.
    Stale(Reason),
}

impl Sequencer {
    /// Whether everything applied was seen to be one process's, at both sockets.
    pub(super) fn is_one_process(&self) -> bool {
        self.confirmed && self.junction.is_none()
    }

    /// What order alone says about the source.
    pub(crate) fn standing(&self) -> Standing {
        if !self.ever_connected {
            let restored = self.last.is_some();
            return if restored { Standing::Stale(Reason::Restored) } else { Standing::None(Reason::NotConnected) };
        }
        if !self.connected {
            return Standing::Stale(Reason::Disconnected);
        }
        if let Some(recovery) = self.recovery.as_ref().filter(|recovery| !recovery.quiet) {
            let is_first = recovery.unmet.is_empty() && recovery.from == 0;
            return Standing::Warm(if is_first { Reason::Synchronizing } else { Reason::Checking });
        }
        if self.unanswered {
            return Standing::Warm(Reason::ReplayUnanswered);
        }
        if self.last.is_some() && !self.outage.is_over() && self.history == History::Complete {
            return Standing::Warm(Reason::Checking);
        }
        match self.history {
            History::Unknown => Standing::None(Reason::NoEvents),
            History::Complete if self.uses_replay() && !self.is_one_process() => Standing::Warm(Reason::Unconfirmed),
            History::Complete => Standing::Exact,
            History::Partial(reason) => Standing::Warm(reason),
            History::Doubtful(reason) => Standing::Stale(reason),
        }
    }
}
