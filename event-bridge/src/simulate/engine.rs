//! One modelled engine.

use std::collections::VecDeque;

use kv_routing::block::SequenceHash;

use super::cache::Cache;
use super::trace::{Arrival, BLOCK_TOKENS};

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineModel {
    /// Prompt tokens computed per second.
    pub prefill_tokens_per_second: f64,
    /// Milliseconds per answer token of each request.
    pub decode_ms_per_token: f64,
    /// Requests in prefill and decode together.
    pub max_requests: u32,
    /// Tokens its cache can hold.
    pub cache_tokens: u64,
}

/// Progress of a request on its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its first token is out.
    FirstToken(usize),
    /// It is over.
    Done(usize),
}

/// An engine and what it is doing.
#[derive(Debug)]
pub(super) struct Engine {
    model: EngineModel,
    cache: Cache,
    waiting: VecDeque<usize>,
    active: u32,
    /// Until then the prefill of an admitted request occupies it.
    prefill_free_at: u64,
    /// Tokens it did not have to compute.
    pub(super) cached_tokens: u64,
    /// Requests it was given.
    pub(super) requests: u64,
    /// Most requests at once whose prefill had not begun.
    pub(super) longest_queue: usize,
    /// Microseconds from each request's arrival to the beginning of its prefill.
    pub(super) queued_us: Vec<u64>,
    /// When the prefills of admitted requests begin, as far as they lie ahead.
    begins: VecDeque<u64>,
}

impl Engine {
    pub(super) fn new(model: EngineModel) -> Self {
        let blocks = usize::try_from(model.cache_tokens / u64::from(BLOCK_TOKENS)).unwrap_or(usize::MAX);
        Self {
            model,
            cache: Cache::new(blocks),
            waiting: VecDeque::new(),
            active: 0,
            prefill_free_at: 0,
            cached_tokens: 0,
            requests: 0,
            longest_queue: 0,
            queued_us: Vec::new(),
            begins: VecDeque::new(),
        }
    }

    /// Leading blocks of `chain` in its cache.
    pub(super) fn overlap(&self, chain: &[SequenceHash]) -> u32 {
        self.cache.overlap(chain)
    }

    /// Requests waiting to be admitted.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Requests admitted.
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    /// Takes request number `request`.
    pub(super) fn enqueue(&mut self, request: usize) {
        self.requests += 1;
        self.waiting.push_back(request);
    }

    /// Admits what it can at time `now`; the steps of what it admitted, with their times.
    pub(super) fn admit(&mut self, now: u64, arrivals: &[Arrival]) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        while self.active < self.model.max_requests {
            let Some(request) = self.waiting.pop_front() else { break };
            let Some(arrival) = arrivals.get(request) else { continue };
            let cached = self.cache.overlap(&arrival.chain).saturating_mul(BLOCK_TOKENS);
            // The last token is always computed.
            let cached = cached.min(arrival.prompt_tokens.saturating_sub(1));
            self.cached_tokens += u64::from(cached);
            self.cache.pin(&arrival.chain);
            self.active += 1;
            let uncached = f64::from(arrival.prompt_tokens - cached);
            let prefill = (uncached / self.model.prefill_tokens_per_second * 1e6) as u64;
            let begin = self.prefill_free_at.max(now);
            self.queued_us.push(begin.saturating_sub(arrival.at_us));
            self.begins.push_back(begin);
            let first = begin + prefill;
            self.prefill_free_at = first;
            let decode = (f64::from(arrival.output_tokens - 1) * self.model.decode_ms_per_token * 1e3) as u64;
            steps.push((first, Step::FirstToken(request)));
            steps.push((first + decode, Step::Done(request)));
        }
        while self.begins.front().is_some_and(|begin| *begin <= now) {
            self.begins.pop_front();
        }
        self.longest_queue = self.longest_queue.max(self.waiting.len() + self.begins.len());
        steps
    }

    /// Request with this `chain` is over.
    pub(super) fn finish(&mut self, chain: &[SequenceHash]) {
        self.active = self.active.saturating_sub(1);
        self.cache.unpin(chain);
    }
}
