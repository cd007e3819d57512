//! Bounds and size figures of an index.

/// Bounds of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexLimits {
    /// Distinct blocks kept; at the bound the least recently stored leaf runs go first. Anything below two full runs
    /// (1024 blocks) counts as two full runs.
    pub max_blocks: u64,
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOutcome {
    /// References added.
    pub added: u32,
    /// Blocks dropped from the index to stay within its bounds.
    pub evicted_blocks: u32,
}

/// Size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Distinct blocks kept, those included that nobody holds but that lie before a held block of the same run.
    pub blocks: u64,
    /// Runs.
    pub runs: u64,
    /// (run, target) pairs: entries of the runs' holder tables.
    pub holders: u64,
    /// (block, target, tier) triples present.
    pub holder_blocks: u64,
    /// Pages of the page set.
    pub pages: u64,
    /// Estimated bytes of all pages as encoded.
    pub page_bytes: u64,
    /// Blocks ever dropped because of a bound.
    pub evicted_blocks: u64,
    /// Estimated bytes of memory of the index itself.
    pub bytes: u64,
}
