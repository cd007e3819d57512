//! The times of one request, for the metrics.

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::RankMetrics;
use crate::sched::Output;

/// A request on its way through a rank.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) sink: mpsc::UnboundedSender<Output>,
    /// Told when the blocks for remote KV are reserved.
    pub(super) reserved: Option<oneshot::Sender<()>>,
    arrived: Instant,
    scheduled: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    prompt_tokens: usize,
    max_tokens: u32,
}

impl Tracked {
    pub(super) fn new(
        sink: mpsc::UnboundedSender<Output>,
        reserved: Option<oneshot::Sender<()>>,
        prompt_tokens: usize,
        max_tokens: u32,
    ) -> Self {
        Self {
            sink,
            reserved,
            arrived: Instant::now(),
            scheduled: None,
            first_token: None,
            last_token: None,
            prompt_tokens,
            max_tokens,
        }
    }

    /// Notes that the request left the queue.
    pub(super) fn started(&mut self, now: Instant, metrics: &mut RankMetrics) {
        if self.scheduled.is_none() {
            self.scheduled = Some(now);
            metrics.queue_time.observe(seconds(self.arrived, now));
        }
    }

    /// Notes a token.
    pub(super) fn token(&mut self, now: Instant, metrics: &mut RankMetrics) {
        match self.last_token {
            None => {
                self.first_token = Some(now);
                metrics.time_to_first_token.observe(seconds(self.arrived, now));
            }
            Some(last) => metrics.inter_token_latency.observe(seconds(last, now)),
        }
        self.last_token = Some(now);
    }

    /// Notes the end.
    pub(super) fn finished(&self, now: Instant, output: &Output, preemptions: u32, metrics: &mut RankMetrics) {
        let generated = output.index + 1;
        let scheduled = self.scheduled.unwrap_or(self.arrived);
        let first = self.first_token.unwrap_or(now);
        let decode = seconds(first, now);
        metrics.request_prompt_tokens.observe(self.prompt_tokens as f64);
        metrics.request_generation_tokens.observe(generated as f64);
        metrics.request_params_max_tokens.observe(f64::from(self.max_tokens));
        metrics.e2e_latency.observe(seconds(self.arrived, now));
        metrics.inference_time.observe(seconds(scheduled, now));
        metrics.prefill_time.observe(seconds(scheduled, first));
        metrics.decode_time.observe(decode);
        metrics.time_per_output_token.observe(decode / (generated - 1).max(1) as f64);
        metrics.request_preemptions.observe(f64::from(preemptions));
        metrics.prefill_computed_tokens.observe((self.prompt_tokens - output.cached_tokens) as f64);
        if let Some(reason) = output.finish {
            metrics.count_finish(reason);
        }
    }
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}
