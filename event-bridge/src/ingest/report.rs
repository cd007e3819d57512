//! What is known of a target's KV state, and why.

use std::time::{Duration, Instant};

use kv_routing::wire::SourceState;

use super::parity::{Cause, ParityCounts};

/// Whether the engine was seen to announce the chains the filter computed for prompts sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parity {
    /// Not seen yet.
    #[default]
    Unknown,
    /// Seen.
    Shown,
    /// Prompts were answered and never announced, or the engine said that it computes others, for what is likely this cause.
    Failed(Cause),
}

/// Why a source is in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Events in order from the first on, tokens verified.
    InOrder,
    /// Never connected yet.
    NotConnected,
    /// What a former bridge knew; not compared with the engine yet.
    Restored,
    /// The connection was lost and is being made again.
    Disconnected,
    /// Connected, and nothing was ever published.
    NoEvents,
    /// The first replay is running.
    Synchronizing,
    /// A gap, reconnect or backward sequence is being checked against the replay buffer.
    Checking,
    /// The engine's replay buffer does not reach back to its start, or there is none and we came late.
    HistoryTrimmed,
    /// Batches were lost for good.
    BatchesLost,
    /// Events were undecodable, so something about the engine's cache is unknown.
    EventsLost,
    /// The replay endpoint does not answer.
    ReplayUnanswered,
    /// The replay endpoint answers with another engine's batches.
    ReplayContradicts,
    /// Replay and live batches were not yet seen to come from the same engine; the next live batch settles it.
    Unconfirmed,
    /// The engine sends events this release does not know.
    UnknownEvents,
    /// Blocks whose parents were never announced are held back.
    Orphans,
    /// The engine's pages do not fit the pool's blocks.
    PageSize,
    /// The engine's hashes do not name whole prefixes, so that its removals hit the wrong blocks.
    HashConflict,
    /// The target announced more than any engine holds and was cleared.
    Overflow,
    /// Everything was cleared although only the device tier is sure to be empty.
    TiersCleared,
    /// The index dropped blocks to stay within its bound.
    IndexBound,
    /// Blocks that were announced twice were removed once: another copy may be left, or the second announcement told of a hit.
    Duplicates,
    /// The engine's blocks depend on the token behind them (a drafter's), so that where two prompts part at a block's end it can use
    /// one block less than the index says.
    Lookahead,
    /// Names of blocks were announced without their tokens.
    Placeholders,
    /// Blocks were announced that are not in the index: their adapter has only a number, their tier or what else enters their
    /// hash is not known, or their tokens are not as many as they should be.
    Unindexable,
    /// More blocks were announced than the engine says it has room for.
    Overcounted,
    /// The model has several groups of layers, and the engine does not say which have full attention.
    GroupKinds,
    /// Batches name another rank than the one that is followed.
    RankMismatch,
    /// Another peer connected than before, and whether it is the same engine cannot be asked.
    PeerChanged,
    /// The engine sleeps, or slept and has not said yet that its cache is empty.
    Asleep,
    /// No prompt was seen to be announced yet.
    ParityUnknown,
    /// Prompts of some kind (an adapter, a salt), or a good share of all, are not announced, while others are.
    ParityPartial,
    /// Prompts were answered and never announced, for what is likely this cause.
    ParityFailed(Cause),
}

impl Reason {
    /// Word used in metrics and the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InOrder => "in_order",
            Self::NotConnected => "not_connected",
            Self::Restored => "restored",
            Self::Disconnected => "disconnected",
            Self::NoEvents => "no_events",
            Self::Synchronizing => "synchronizing",
            Self::Checking => "checking",
            Self::HistoryTrimmed => "history_trimmed",
            Self::BatchesLost => "batches_lost",
            Self::EventsLost => "events_lost",
            Self::ReplayUnanswered => "replay_unanswered",
            Self::ReplayContradicts => "replay_contradicts",
            Self::Unconfirmed => "unconfirmed",
            Self::UnknownEvents => "unknown_events",
            Self::Orphans => "orphans",
            Self::PageSize => "page_size",
            Self::HashConflict => "hash_conflict",
            Self::Overflow => "overflow",
            Self::TiersCleared => "tiers_cleared",
            Self::IndexBound => "index_bound",
            Self::Duplicates => "duplicates",
            Self::Lookahead => "lookahead",
            Self::Placeholders => "placeholders",
            Self::Unindexable => "unindexable",
            Self::Overcounted => "overcounted",
            Self::GroupKinds => "group_kinds",
            Self::RankMismatch => "rank_mismatch",
            Self::PeerChanged => "peer_changed",
            Self::Asleep => "asleep",
            Self::ParityUnknown => "parity_unknown",
            Self::ParityPartial => "parity_partial",
            Self::ParityFailed(cause) => match cause {
                Cause::Template => "parity_template",
                Cause::Tokenizer => "parity_tokenizer",
                Cause::BlockSize => "parity_block_size",
                Cause::Adapter => "parity_adapter",
                Cause::Salt => "parity_salt",
                Cause::Elsewhere => "parity_elsewhere",
                Cause::Unknown => "parity_failed",
            },
        }
    }
}

/// State and counters of one target's source. Counters only grow while the target exists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceReport {
    /// How far its index entries can be trusted.
    pub state: SourceState,
    /// Why.
    pub reason: Reason,
    /// Sequence number of the last batch applied.
    pub last_seq: Option<u64>,
    /// How long the last live batch waited between socket and index, a replay included that it was held back for.
    pub lag: Option<Duration>,
    /// When the last batch was applied.
    pub last_applied: Option<Instant>,
    /// Wall clock of the engine in that batch, Unix seconds.
    pub last_batch_time: Option<f64>,
    /// Gaps, backward sequences and reconnects that had to be checked.
    pub checks: u64,
    /// Live sequence numbers that did not follow their predecessor.
    pub gaps: u64,
    /// New incarnations of the engine noticed.
    pub restarts: u64,
    /// Times that batches were lost for good.
    pub losses: u64,
    /// Live batches that had been received before.
    pub duplicate_batches: u64,
    /// Batches applied.
    pub batches: u64,
    /// Events applied.
    pub events: u64,
    /// Blocks stored, duplicates included.
    pub stored_blocks: u64,
    /// Blocks removed.
    pub removed_blocks: u64,
    /// Removals of blocks that were not known.
    pub unknown_removals: u64,
    /// Batches and events that did not decode.
    pub undecodable: u64,
    /// Events of kinds this release does not know.
    pub unknown_events: u64,
    /// Stores that cannot be indexed (placeholders, masked blocks, tokens that are not numbers).
    pub unindexable: u64,
    /// Blocks stored under an engine hash that had another meaning.
    pub hash_conflicts: u64,
    /// Times the engine emptied its cache.
    pub clears: u64,
    /// Engine pages held now, those without known parents included.
    pub pages: u64,
    /// Estimated bytes of memory of what is known of these pages, the index not included.
    pub bytes: u64,
    /// Blocks with unknown parents held back now.
    pub orphans: u64,
    /// Orphans dropped because of their bound.
    pub orphans_dropped: u64,
    /// Live batches held back now until a replay ends.
    pub held_batches: u64,
    /// Engine's page size in tokens, from its events.
    pub page_tokens: Option<u32>,
    /// Batches that named another rank than the stream's.
    pub rank_mismatches: u64,
    /// Prompts looked for among its blocks.
    pub parity: ParityCounts,
}
