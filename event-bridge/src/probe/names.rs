//! What each engine calls its load metrics.

use crate::config::EngineKind;

/// Metric names of one engine. Where several names are listed, versions differ.
#[derive(Debug)]
pub(super) struct MetricNames {
    /// Requests in the running batch.
    pub running: &'static [&'static str],
    /// Requests waiting for it.
    pub waiting: &'static [&'static str],
    /// Share of the cache in use, 0 to 1.
    pub usage: &'static [&'static str],
    /// Label that holds the data-parallel rank.
    pub rank_label: &'static str,
    /// How large the cache is.
    pub capacity: Capacity,
}

/// How an engine says how large its cache is.
#[derive(Debug)]
pub(super) enum Capacity {
    /// Labels of an information metric: tokens, or else blocks times tokens per block.
    Labels {
        /// The metric.
        name: &'static str,
        /// Label with the size in tokens.
        tokens: &'static str,
        /// Label with the size in blocks, summed over data-parallel ranks.
        blocks: &'static str,
        /// Label with tokens per block.
        block_tokens: &'static str,
    },
    /// A gauge, in tokens.
    Tokens(&'static str),
    /// A gauge in blocks and one with the tokens of a block.
    Blocks {
        /// Blocks.
        blocks: &'static str,
        /// Tokens per block.
        block_tokens: &'static str,
    },
}

/// Start of the engine's process in Unix seconds, from the common Prometheus process collector.
pub(super) const PROCESS_START: &str = "process_start_time_seconds";

const VLLM: MetricNames = MetricNames {
    running: &["vllm:num_requests_running"],
    waiting: &["vllm:num_requests_waiting"],
    // The second is the name up to 0.11.
    usage: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
    rank_label: "engine",
    capacity: Capacity::Labels {
        name: "vllm:cache_config_info",
        tokens: "kv_cache_size_tokens",
        blocks: "num_gpu_blocks",
        block_tokens: "block_size",
    },
};

const SGLANG: MetricNames = MetricNames {
    running: &["sglang:num_running_reqs"],
    waiting: &["sglang:num_queue_reqs"],
    usage: &["sglang:token_usage"],
    rank_label: "dp_rank",
    capacity: Capacity::Tokens("sglang:max_total_num_tokens"),
};

const TRTLLM: MetricNames = MetricNames {
    running: &["trtllm_num_requests_running"],
    waiting: &["trtllm_num_requests_waiting"],
    usage: &["trtllm_kv_cache_utilization"],
    rank_label: "rank",
    capacity: Capacity::Blocks {
        blocks: "trtllm_kv_cache_max_blocks",
        block_tokens: "trtllm_kv_cache_tokens_per_block",
    },
};

/// vLLM's gauge of sleep: 1 with the label `sleep_state="awake"`, or else with that of how deep it sleeps.
pub(super) const SLEEP: &str = "vllm:engine_sleep_state";
/// That label.
pub(super) const SLEEP_LABEL: &str = "sleep_state";

/// Names used by `engine`.
pub(super) fn of(engine: EngineKind) -> &'static MetricNames {
    match engine {
        EngineKind::Vllm => &VLLM,
        EngineKind::Sglang => &SGLANG,
        EngineKind::Trtllm => &TRTLLM,
    }
}
