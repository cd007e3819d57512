//! One stream's order: which batches may be applied, which are held back, and when everything known is void.
//!
//! Numbers alone do not prove that an engine is still the same process: after a restart they may even seem to go on
//! where they stopped. So whenever there is doubt (a gap, a number that does not grow, a new connection, a quiet time)
//! the engine's replay buffer is asked from the last applied batch on, that one included. One answer is one process's. It must have
//! the very batches, by their digests, that tie together what was applied:
//!
//! - the last one;
//! - the one that live batches were put on (the junction), when it was known from a replay alone;
//! - the newest live one, until both sockets of the connection were seen to agree.
//!
//! A stream is exact only when one answer had all of them, and no junction has been made since.
//!
//! ```text
//!            Connected: replay from 0
//!   Idle ────────────────────────────────┐
//!                                        v
//!              ┌───────────────────> Recovering ──────────────┐
//!              │ gap, backward number,   │  ^  live batches    │ answered, end marker,
//!              │ reconnect, audit:       │  │  are held        │ nothing missing:
//!              │ replay from the lowest  │  │                  │ held ones are applied
//!              │ of those                v  │                  v
//!              │        other process, or one trimmed:      Following
//!              │        clear, replay from 0                   │ live batches are applied at once
//!              └───────────────────────────────────────────────┘
//!
//!   no answer, no marker, still missing: asked again, MAX_ATTEMPTS times in all; then the gap policy decides
//! ```
//!
//! Without a replay endpoint a stream goes straight to Following, and every doubt is a loss.

mod held;
mod live;
mod loss;
mod polled;
mod recover;
mod recovery;
mod saved;
mod standing;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use self::held::Held;
pub(crate) use self::loss::Verdict;
use self::polled::Outage;
use self::recovery::Recovery;
pub(crate) use self::standing::Standing;
use super::{GapPolicy, Reason};
use crate::stream::ReplayId;

/// How often an unanswered or incomplete replay is asked for.
const MAX_ATTEMPTS: u32 = 3;
/// How often a replay that contradicts the live batches is believed to be a restart caught halfway.
const MAX_CONTRADICTIONS: u32 = 3;
/// A subscription may take effect a little after the replay was answered; what fell in between shows up in an audit.
const SETTLE: Duration = Duration::from_secs(1);
/// The stream promises to end every replay; should it not, this does. Replays of a large pool wait for each other.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(900);

/// What is to be done, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Apply a batch.
    Apply(Batch, Origin),
    /// Forget everything the target was believed to hold.
    Clear,
    /// Ask for a replay.
    Replay {
        /// Comes back in the answers.
        id: ReplayId,
        /// First sequence number wanted.
        from: u64,
    },
}

/// Counts losses and restarts, so that what a batch says about the history is not taken for what came after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Era(u64);

/// Where a batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// When, as losses and restarts go.
    pub(crate) era: Era,
    /// From the live socket, not from the replay buffer.
    pub(crate) is_live: bool,
}

/// A batch in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) seq: u64,
    pub(crate) payload: Bytes,
    /// When the socket gave it to us; only of live ones.
    pub(crate) received: Option<Instant>,
    digest: u64,
}

impl Batch {
    pub(crate) fn new(seq: u64, payload: Bytes) -> Self {
        Self { seq, digest: xxh3_64(&payload), received: None, payload }
    }

    /// A batch from the live socket.
    pub(crate) fn live(seq: u64, payload: Bytes, received: Instant) -> Self {
        Self { received: Some(received), ..Self::new(seq, payload) }
    }

    fn mark(&self) -> Mark {
        Mark { seq: self.seq, digest: self.digest }
    }
}

/// A batch that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    seq: u64,
    digest: u64,
}

/// Whether everything since the engine's start was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// Not known yet.
    Unknown,
    /// Everything, or everything since the cache was last empty.
    Complete,
    /// Something is missing, but nothing known is wrong.
    Partial(Reason),
    /// Something is missing, and what is known may be wrong.
    Doubtful(Reason),
}

/// Counters; only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceCounters {
    pub(crate) checks: u64,
    pub(crate) gaps: u64,
    pub(crate) restarts: u64,
    pub(crate) losses: u64,
    pub(crate) duplicates: u64,
}

/// How a stream's batches can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Live only.
    Live,
    /// Live, and again out of the engine's replay buffer.
    Replay,
    /// Fetched from the engine's buffer, which every answer empties.
    Polled,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sequencer {
    access: Access,
    policy: GapPolicy,
    audit_every: Duration,
    ever_connected: bool,
    connected: bool,
    history: History,
    era: Era,
    /// The last batch applied of the process now followed.
    last: Option<Mark>,
    /// It came from the live socket of this connection, perhaps from a replay too.
    last_was_live: bool,
    /// The last batch of a replay, on which live ones were put: those might be another process's.
    junction: Option<Mark>,
    /// The first batch applied of that process.
    origin: Option<Mark>,
    /// Marks of batches before the last, to know late duplicates.
    recent: [Option<Mark>; 16],
    recovery: Option<Recovery>,
    held: Held,
    /// Number of the newest live batch of this connection.
    live: Option<u64>,
    /// That batch, once it is known to be one that was applied.
    newest: Option<Mark>,
    next_id: u64,
    next_audit: Option<Instant>,
    /// The last replay was not answered.
    unanswered: bool,
    /// Replay and live batches of this connection were seen to agree.
    confirmed: bool,
    contradictions: u32,
    /// Replay and live batches of this connection come from different engines.
    distrusted: bool,
    /// A batch of this connection did not decode even out of the replay buffer.
    garbled: bool,
    /// Of a polled engine, since its last event.
    outage: Outage,
    /// When it was last looked at whether this is still the process that was followed before.
    noticed: Option<Instant>,
    counters: SequenceCounters,
}

impl Sequencer {
    pub(crate) fn new(access: Access, policy: GapPolicy, audit_every: Duration, max_held_bytes: usize) -> Self {
        Self {
            access,
            policy,
            audit_every,
            ever_connected: false,
            connected: false,
            history: History::Unknown,
            era: Era::default(),
            last: None,
            last_was_live: false,
            junction: None,
            origin: None,
            recent: [None; 16],
            recovery: None,
            held: Held::new(max_held_bytes),
            live: None,
            newest: None,
            next_id: 0,
            next_audit: None,
            unanswered: false,
            confirmed: false,
            contradictions: 0,
            distrusted: false,
            garbled: false,
            outage: Outage::default(),
            noticed: None,
            counters: SequenceCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> &SequenceCounters {
        &self.counters
    }

    pub(crate) fn last_seq(&self) -> Option<u64> {
        self.last.map(|mark| mark.seq)
    }

    /// Live batches held back now.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Bytes of memory of what is held back.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Gives up what is held back, for want of memory. It is asked for again.
    pub(crate) fn shed_held(&mut self) {
        self.held.shed();
    }

    fn uses_replay(&self) -> bool {
        self.access == Access::Replay && !self.distrusted
    }

    /// Number the next batch should have; `None` when any is as good as another.
    fn next(&self) -> Option<u64> {
        match (self.last, self.history) {
            (Some(mark), _) => Some(mark.seq.saturating_add(1)),
            (None, History::Complete) => Some(0),
            (None, _) => None,
        }
    }

    fn apply(&mut self, batch: Batch, is_live: bool, steps: &mut Vec<Step>) {
        let mark = batch.mark();
        if is_live && !self.last_was_live {
            self.junction = self.junction.or(self.last);
        }
        self.last_was_live = is_live;
        if is_live {
            self.newest = Some(mark);
        }
        self.origin.get_or_insert(mark);
        if let Some(last) = self.last.replace(mark) {
            let at = (last.seq % self.recent.len() as u64) as usize;
            if let Some(place) = self.recent.get_mut(at) {
                *place = Some(last);
            }
        }
        steps.push(Step::Apply(batch, Origin { era: self.era, is_live }));
    }

    /// The batch applied under a number, if it is remembered.
    fn applied(&self, seq: u64) -> Option<Mark> {
        let recent = self.recent.get((seq % self.recent.len() as u64) as usize).copied().flatten();
        let all = [self.last, self.origin, self.junction, self.newest, recent];
        all.into_iter().flatten().find(|mark| mark.seq == seq)
    }

    /// Whether exactly this batch was applied, as far back as is remembered.
    fn is_known(&self, mark: Mark) -> bool {
        self.applied(mark.seq) == Some(mark)
    }

    /// Everything applied so far is void; the next batch begins afresh.
    fn forget(&mut self, history: History, steps: &mut Vec<Step>) {
        self.begin_era(history);
        steps.push(Step::Clear);
    }

    fn begin_era(&mut self, history: History) {
        self.era.0 += 1;
        self.confirmed = false;
        self.last = None;
        self.last_was_live = false;
        self.junction = None;
        self.newest = None;
        self.origin = None;
        self.recent = [None; 16];
        self.history = history;
    }
}
