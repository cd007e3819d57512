//! The target table of a pool: who can be chosen, and in what state they are.

use bincode::{Decode, Encode};

use super::UnixMillis;
use super::codec;
use crate::target::{Slot, TargetId};

/// All targets of a pool.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct TargetTable {
    /// In ascending slot order.
    pub targets: Vec<TargetEntry>,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TargetEntry {
    /// Names it in pages.
    pub slot: Slot,
    /// Names it in load rows and decisions.
    pub id: TargetId,
    /// `ip:port`, exactly as Envoy's cluster has it.
    pub endpoint: String,
    /// Data-parallel rank, when the endpoint serves several.
    pub rank: Option<u32>,
    /// Which phase it serves.
    pub role: Role,
    /// Only [`Health::Healthy`] targets are chosen while there is one.
    pub health: Health,
    /// How far its KV state can be trusted.
    pub source: SourceState,
    /// When it came into that state; the credit of a [`SourceState::Stale`] source decays from then on.
    pub source_since: UnixMillis,
    /// Blocks its cache can hold; 0 when unknown.
    pub capacity_blocks: u64,
    /// Most prompt tokens it takes in one engine step; 0 when unknown.
    pub max_batched_tokens: u64,
    /// Requests the engine says are running.
    pub running: u32,
    /// Requests the engine says are waiting.
    pub waiting: u32,
    /// Share of its cache in use, 0 to 1, as the engine reports it.
    pub kv_usage: f32,
    /// Labels from configuration or discovery.
    pub labels: Vec<(String, String)>,
    /// How decode engines meet it; `None` where it does no prefill for others.
    pub bootstrap: Option<Bootstrap>,
}

/// Where a prefill engine hands over, for the protocols that name it in a request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Bootstrap {
    /// Host of its bootstrap server, as decode engines reach it.
    pub host: String,
    /// Port of its bootstrap server.
    pub port: u16,
    /// Data-parallel ranks of the whole engine, at least 1.
    pub ranks: u32,
    /// Its engine id, where the protocol needs it and it is known.
    pub engine_id: Option<String>,
}

impl TargetEntry {
    /// A healthy target with an exact source, of which nothing else is known.
    pub fn new(slot: Slot, endpoint: &str, rank: Option<u32>) -> Self {
        Self {
            slot,
            id: TargetId::of(endpoint, rank),
            endpoint: endpoint.to_owned(),
            rank,
            role: Role::Both,
            health: Health::Healthy,
            source: SourceState::Exact,
            source_since: UnixMillis(0),
            capacity_blocks: 0,
            max_batched_tokens: 0,
            running: 0,
            waiting: 0,
            kv_usage: 0.0,
            labels: Vec::new(),
            bootstrap: None,
        }
    }
}

/// Which phase of a request a target serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Role {
    /// Prefill and decode.
    Both,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Both, Self::Prefill, Self::Decode];

    /// Word used in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// What the bridge's probes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Health {
    /// Not probed yet.
    Unknown,
    /// Answers.
    Healthy,
    /// Does not answer, or answers with an error.
    Unhealthy,
    /// Leaving: finishes what it has and takes nothing new.
    Draining,
}

impl Health {
    /// Word used in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Draining => "draining",
        }
    }
}

/// How far a target's KV state can be trusted (ARCHITECTURE, states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum SourceState {
    /// Events in order, tokens verified.
    Exact,
    /// Usable, history incomplete.
    Warm,
    /// The source is silent; its credit decays.
    Stale,
    /// Token parity not shown yet.
    Unverified,
    /// Token parity failed: its overlap counts nothing.
    Mismatch,
    /// No events.
    None,
}

impl SourceState {
    /// Every state.
    pub const ALL: [Self; 6] = [Self::Exact, Self::Warm, Self::Stale, Self::Unverified, Self::Mismatch, Self::None];

    /// Word used in explanations, metrics and the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Warm => "warm",
            Self::Stale => "stale",
            Self::Unverified => "unverified",
            Self::Mismatch => "mismatch",
            Self::None => "none",
        }
    }
}

codec::message!(TargetTable);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_with_everything_set_and_no_part_of_it_decodes() {
        let bootstrap = Bootstrap { host: "10.0.0.7".into(), port: 8998, ranks: 4, engine_id: Some("e-7".into()) };
        let entry = TargetEntry {
            slot: Slot(7),
            id: TargetId::of("10.0.0.7:8000", Some(3)),
            endpoint: "10.0.0.7:8000".into(),
            rank: Some(3),
            role: Role::Prefill,
            health: Health::Draining,
            source: SourceState::Warm,
            source_since: UnixMillis(5),
            capacity_blocks: 1,
            max_batched_tokens: 2,
            running: 3,
            waiting: 4,
            kv_usage: 0.5,
            labels: vec![("zone".into(), "a".into())],
            bootstrap: Some(bootstrap),
        };
        let plain = TargetEntry { role: Role::Both, rank: None, bootstrap: None, ..entry.clone() };
        let table = TargetTable { targets: vec![entry, plain] };
        let bytes = table.encode().unwrap();
        assert_eq!(TargetTable::decode(&bytes).unwrap(), table);
        assert!((0..bytes.len()).all(|cut| TargetTable::decode(&bytes[..cut]).is_err()));
    }
}
