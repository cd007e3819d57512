//! State of a pool at one moment, for the admin API and metrics.

use std::collections::BTreeMap;

use kv_routing::block::{BlockSize, SequenceHash};
use kv_routing::index::IndexStats;
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::TokenizerRef;

use super::member::Member;
use super::state::Counters;
use crate::config::WorkerAddress;
use crate::cross_check::Outcome;
use crate::ingest::{Finding, SourceReport};
use crate::stream::StreamStats;

/// State of a pool.
#[derive(Clone, Debug)]
pub struct PoolSnapshot {
    /// Its name.
    pub name: String,
    /// Its workers, leaving ones included.
    pub members: Vec<Member>,
    /// Event sources by slot; targets without events are missing.
    pub sources: BTreeMap<Slot, (SourceReport, StreamStats)>,
    /// What differs on targets whose token parity failed.
    pub findings: BTreeMap<Slot, Finding>,
    /// Size of the index.
    pub index: IndexStats,
    /// Most distinct blocks it may have.
    pub max_blocks: u64,
    /// log2 of the number of pages.
    pub page_bits: u8,
    /// Learned from events.
    pub block_size: Option<BlockSize>,
    /// Expected by configuration.
    pub expected_block_size: Option<BlockSize>,
    /// Version of the target table; 0 before the first.
    pub table_version: u64,
    /// Whether the pool is settled.
    pub settled: bool,
    /// Why the workers in force are not those of the workers file, when they are not.
    pub workers_error: Option<String>,
    /// Why the endpoint file is not up to date, when it is not.
    pub eds_error: Option<String>,
    /// The tokenizer.
    pub tokenizer: TokenizerStatus,
    /// Why no chat of this model can be rendered, when that is so: only text and token-id prompts are exact.
    pub chats_problem: Option<String>,
    /// Whether engines are asked for their tokens.
    pub checks_with_engine: bool,
    /// What they said, by worker.
    pub checks: BTreeMap<WorkerAddress, Outcome>,
    /// Counts.
    pub counters: Counters,
}

/// State of a pool's tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizerStatus {
    /// None is configured: only token-id prompts are matched.
    NotConfigured,
    /// It is being compiled.
    Loading,
    /// In use.
    Loaded(TokenizerRef),
    /// The bridge tokenizes at the filter's request: what the filter's core does not know, or does otherwise.
    Bridge(String),
    /// It cannot be used.
    Failed(String),
}

/// Everything in an index.
#[derive(Clone, Debug)]
pub struct IndexDump {
    /// Worker and rank of each slot that is in use.
    pub targets: BTreeMap<Slot, (WorkerAddress, Option<u32>)>,
    /// Who holds what, in no particular order.
    pub holdings: Vec<Holding>,
}

/// One block on one tier of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The target.
    pub slot: Slot,
    /// The tier.
    pub tier: Tier,
    /// The block, by its chained hash.
    pub block: SequenceHash,
    /// Its position in the prompt, when all blocks before it are known.
    pub depth: Option<u32>,
}
