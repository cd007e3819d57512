//! What one rank counts, and its Prometheus text under vLLM's names.

mod families;
mod histogram;
mod render;
#[cfg(test)]
mod tests;

pub use histogram::Histogram;
pub use render::{ServerFacts, render};

use crate::sched::{FinishReason, SchedulerStats};
use histogram::bounds;

/// The numbers of one rank.
#[derive(Clone, Debug)]
pub struct RankMetrics {
    /// Requests being computed.
    pub running: usize,
    /// Requests queued.
    pub waiting: usize,
    /// Those of them that wait for KV from another instance.
    pub deferred: usize,
    /// Finished requests whose blocks wait for another instance.
    pub held_requests: usize,
    /// Those blocks.
    pub held_blocks: usize,
    /// Holds given up because nobody fetched the blocks in time.
    pub held_expired: u64,
    /// Share of blocks in use.
    pub kv_usage: f64,
    /// Distinct blocks that can be hit.
    pub cached_blocks: usize,
    /// Counters of the scheduler.
    pub scheduler: SchedulerStats,
    /// Finished by their own end.
    pub finished_stop: u64,
    /// Finished at the token limit.
    pub finished_length: u64,
    /// Given up by the client.
    pub finished_abort: u64,
    /// Prompt lengths.
    pub request_prompt_tokens: Histogram,
    /// Answer lengths.
    pub request_generation_tokens: Histogram,
    /// Tokens per step.
    pub iteration_tokens: Histogram,
    /// Requested answer lengths.
    pub request_params_max_tokens: Histogram,
    /// Requested numbers of answers.
    pub request_params_n: Histogram,
    /// Seconds from arrival to first token.
    pub time_to_first_token: Histogram,
    /// Seconds between tokens.
    pub inter_token_latency: Histogram,
    /// Mean seconds per token after the first.
    pub time_per_output_token: Histogram,
    /// Seconds from arrival to the end.
    pub e2e_latency: Histogram,
    /// Seconds in the queue.
    pub queue_time: Histogram,
    /// Seconds being computed.
    pub inference_time: Histogram,
    /// Seconds from leaving the queue to the first token.
    pub prefill_time: Histogram,
    /// Seconds from the first token to the last.
    pub decode_time: Histogram,
    /// Preemptions per request.
    pub request_preemptions: Histogram,
    /// Prompt tokens computed per request, cache hits left out.
    pub prefill_computed_tokens: Histogram,
}

impl Default for RankMetrics {
    fn default() -> Self {
        let tokens = || Histogram::new(bounds::TOKENS);
        let latency = || Histogram::new(bounds::LATENCY);
        let token_gap = || Histogram::new(bounds::TOKEN_GAP);
        Self {
            running: 0,
            waiting: 0,
            deferred: 0,
            held_requests: 0,
            held_blocks: 0,
            held_expired: 0,
            kv_usage: 0.0,
            cached_blocks: 0,
            scheduler: SchedulerStats::default(),
            finished_stop: 0,
            finished_length: 0,
            finished_abort: 0,
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            iteration_tokens: Histogram::new(bounds::ITERATION),
            request_params_max_tokens: tokens(),
            request_params_n: Histogram::new(bounds::SMALL_COUNT),
            time_to_first_token: Histogram::new(bounds::FIRST_TOKEN),
            inter_token_latency: token_gap(),
            time_per_output_token: token_gap(),
            e2e_latency: latency(),
            queue_time: latency(),
            inference_time: latency(),
            prefill_time: latency(),
            decode_time: latency(),
            request_preemptions: Histogram::new(bounds::PREEMPTIONS),
            prefill_computed_tokens: tokens(),
        }
    }
}

impl RankMetrics {
    /// Prompt tokens found in this rank's own cache.
    pub fn cached_prompt_tokens(&self) -> f64 {
        self.scheduler.prefix_hits as f64
    }

    /// Counts the end of a request.
    pub fn count_finish(&mut self, reason: FinishReason) {
        match reason {
            FinishReason::Stop => self.finished_stop += 1,
            FinishReason::Length => self.finished_length += 1,
        }
    }
}
