//! Settings of a pool's ingest.

use std::time::Duration;

use kv_routing::block::BlockSize;
use kv_routing::index::IndexLimits;

/// What happens to a target's index when batches are lost for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapPolicy {
    /// Forget what the target was believed to hold: nothing indexed is wrong, much may be missing.
    #[default]
    Clear,
    /// Keep it and call it stale: little is missing, some of it may be wrong.
    Keep,
}

/// What comes of prompts whose blocks an engine does not announce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParityPolicy {
    /// The target's blocks count for nothing.
    #[default]
    Enforce,
    /// It is told, and the target's blocks count as before.
    Report,
}

/// Settings of a pool's ingest.
#[derive(Clone, Copy, Debug)]
pub struct IngestConfig {
    /// Bounds of the index.
    pub limits: IndexLimits,
    /// What the operator believes the block size to be. Reported when events say otherwise, never obeyed then; it
    /// decides only how engines with tiny pages are re-blocked.
    pub expected_block_size: Option<BlockSize>,
    /// Engine pages below this many tokens are re-blocked (SGLang's page of one token would make a block of every token).
    pub min_block_tokens: u32,
    /// See [`GapPolicy`].
    pub gap_policy: GapPolicy,
    /// See [`ParityPolicy`].
    pub parity_policy: ParityPolicy,
    /// Blocks with unknown parents kept per target.
    pub max_orphans: u32,
    /// Engine pages kept per target; a target that announces more is cleared, since no engine holds that many.
    pub max_pages: u32,
    /// Engine pages kept of all targets; beyond it the target that has most is cleared.
    pub max_pool_pages: usize,
    /// Bytes of live batches held back per target while a replay runs.
    pub max_held_bytes: usize,
    /// Bytes of live batches held back of all targets; beyond it the target that has most of them asks for them again.
    pub max_pool_held_bytes: usize,
    /// Bytes of blocks with unknown parents of all targets; beyond it the target that has most of them forgets them.
    pub max_pool_orphan_bytes: usize,
    /// Random number that nobody else knows; keeps strangers from piling their prompts into one bucket of a map.
    pub secret: u64,
    /// A quiet stream with a replay endpoint is checked this often; zero never.
    pub audit_every: Duration,
}

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            limits: IndexLimits { max_blocks: 8 << 20 },
            expected_block_size: None,
            min_block_tokens: 8,
            gap_policy: GapPolicy::default(),
            parity_policy: ParityPolicy::default(),
            max_orphans: 65_536,
            max_pages: 16 << 20,
            max_pool_pages: 64 << 20,
            max_held_bytes: 64 << 20,
            max_pool_held_bytes: 1 << 30,
            max_pool_orphan_bytes: 512 << 20,
            secret: 0,
            audit_every: Duration::from_secs(30),
        }
    }
}

/// What an engine's metrics say of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineSays {
    /// Tokens its device cache can hold; 0 when it does not say.
    pub capacity_tokens: u64,
    /// It sleeps: its cache is gone, and the event that says so waits until it works again.
    pub asleep: bool,
}

/// What is known of a target's event source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceSpec {
    /// The stream has a replay endpoint.
    pub replay: bool,
    /// Events are fetched from the engine's own buffer, one JSON event per batch (TensorRT-LLM). What was not fetched the engine
    /// keeps, and its numbers say when its buffer overflowed; an answer that is lost on its way it does not.
    pub polled: bool,
    /// Rank the stream belongs to, to notice a socket shared by several.
    pub rank: Option<u32>,
}
