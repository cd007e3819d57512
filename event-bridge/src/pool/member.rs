//! One worker's stay in a pool.

use kv_routing::handoff::Protocol;
use kv_routing::target::Slot;
use kv_routing::wire::{Bootstrap, Health, Role, SourceState, UnixMillis};
use tokio::time::Instant;

use crate::config::{BootstrapSpec, HandoffConfig, RankSpec, WorkerSpec};
use crate::probe::{EngineHandoff, EngineLoad, HandoffProbe, MemberId};

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
    /// When it did.
    pub load_at: Option<Instant>,
    /// Why the last load report is missing, when it is.
    pub load_error: Option<String>,
    /// Why it is not known where it publishes its events, when the engine was asked in vain.
    pub events_error: Option<String>,
    /// What the engine last said of disaggregated serving.
    pub handoff: EngineHandoff,
    /// Why it did not say it, when it was asked.
    pub handoff_error: Option<String>,
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

    /// Which phase it serves: as configured, else as the engine says.
    pub fn role(&self) -> Role {
        self.spec.role.or(self.handoff.role).unwrap_or(Role::Both)
    }

    /// Where its `rank` hands over; `None` where it does no prefill for others.
    pub fn bootstrap(&self, rank: Option<u32>) -> Option<Bootstrap> {
        let BootstrapSpec { host, port, engine_id } = &self.spec.bootstrap;
        let told = self.handoff.engine_ids.get(&rank.unwrap_or(0));
        // Ranks are numbered over the whole engine, of which this address may serve a part.
        let last = self.spec.ranks.iter().filter_map(|rank| rank.rank).max();
        (self.role() == Role::Prefill).then(|| Bootstrap {
            host: host.clone(),
            port: port.or(self.handoff.bootstrap_port).unwrap_or(BootstrapSpec::DEFAULT_PORT),
            ranks: self.handoff.ranks.or_else(|| last?.checked_add(1)).unwrap_or(1).max(1),
            engine_id: engine_id.as_ref().or(told).cloned(),
        })
    }

    /// What is to be asked of the engine about handing over as `config` says.
    pub fn handoff_probe(&self, config: &HandoffConfig) -> Option<HandoffProbe> {
        let BootstrapSpec { host, port, engine_id } = &self.spec.bootstrap;
        let asks = self.spec.role == Some(Role::Prefill) && engine_id.is_none();
        let address = || format!("{host}:{}", port.unwrap_or(BootstrapSpec::DEFAULT_PORT));
        match config.protocol {
            Protocol::Sglang => Some(HandoffProbe::Sglang),
            Protocol::Mooncake if asks => Some(HandoffProbe::Mooncake(address())),
            Protocol::Nixl if asks && config.is_asked() => Some(HandoffProbe::PerhapsMooncake(address())),
            Protocol::Mooncake | Protocol::Nixl | Protocol::TensorRtLlm | Protocol::Header => None,
        }
    }
}
