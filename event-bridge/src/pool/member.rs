//! One worker's stay in a pool.

use kv_routing::target::Slot;
use kv_routing::wire::{Health, SourceState, UnixMillis};
use tokio::time::Instant;

use crate::config::{RankSpec, WorkerSpec};
use crate::probe::{EngineLoad, MemberId};

/// A worker that is in the pool, or still leaving it.
#[derive(Clone, Debug)]
pub struct Member {
    /// This stay.
    pub id: MemberId,
    /// What configuration says of it.
    pub spec: WorkerSpec,
    /// Its targets, one per rank that could get a slot.
    pub targets: Vec<MemberTarget>,
    /// Its endpoint is in the endpoint file. Only then may its targets be in the target table.
    pub listed: bool,
    /// Since when and how far it is leaving.
    pub leaving: Option<Leaving>,
    /// Result of health probes.
    pub health: Health,
    /// Why the last health probe failed, when it did.
    pub health_error: Option<String>,
    /// Load the engine last reported.
    pub load: EngineLoad,
    /// Why the last load report is missing, when it is.
    pub load_error: Option<String>,
    /// Why it is not known where it publishes its events, when the engine was asked in vain.
    pub events_error: Option<String>,
    /// Probes that found a new engine process.
    pub restarts: u64,
}

/// One rank of a member.
#[derive(Clone, Debug)]
pub struct MemberTarget {
    /// Its slot.
    pub slot: Slot,
    /// Rank and event stream.
    pub spec: RankSpec,
    /// State of its KV source, and when it came into that state.
    pub source: (SourceState, UnixMillis),
}

/// How far a member is leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// When it was removed.
    pub since: Instant,
    /// The first version of the target table without it.
    pub table_version: Option<u64>,
}

impl Member {
    /// Whether its targets belong in the target table.
    pub fn in_table(&self) -> bool {
        self.listed && self.leaving.is_none()
    }

    /// Health as the target table shows it.
    pub fn table_health(&self) -> Health {
        if self.spec.drain { Health::Draining } else { self.health }
    }
}
