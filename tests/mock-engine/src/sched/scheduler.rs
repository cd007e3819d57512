//! Continuous batching as vLLM's scheduler does it: running requests first, then waiting ones in order of arrival,
//! chunked prefill within the token budget, and preemption of the newest request when blocks run out.

use std::collections::{HashMap, VecDeque};

use super::request::{FinishReason, KvOrigin, Output, Request, RequestId, RequestSpec};
use super::step::{Emission, Step};
use crate::cache::{BlockHasher, BlockPool, BlockTable};

/// Bounds of one rank.
#[derive(Clone, Debug)]
pub struct SchedulerLimits {
    /// Tokens in a block.
    pub block_size: usize,
    /// Blocks, the null block included.
    pub num_blocks: u32,
    /// Requests computed at once.
    pub max_num_seqs: usize,
    /// Tokens computed in one step.
    pub max_num_batched_tokens: usize,
    /// Prompt plus answer at most.
    pub max_model_len: usize,
}

/// Counters since the start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SchedulerStats {
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// Prompt tokens asked of another instance.
    pub external_queries: u64,
    /// Prompt tokens received from another instance.
    pub external_hits: u64,
    /// Requests that lost their blocks.
    pub preemptions: u64,
    /// Prompt tokens of requests that got their first token.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
}

/// One rank's requests and blocks.
pub struct Scheduler {
    limits: SchedulerLimits,
    hasher: BlockHasher,
    pool: BlockPool,
    requests: HashMap<RequestId, Request>,
    waiting: VecDeque<RequestId>,
    running: Vec<RequestId>,
    /// Requests that wait for KV from another instance, blocks reserved.
    loading: Vec<RequestId>,
    /// Blocks of finished requests that another instance will fetch.
    held: HashMap<RequestId, BlockTable>,
    stats: SchedulerStats,
}

impl Scheduler {
    /// An empty rank.
    pub fn new(limits: SchedulerLimits, hasher: BlockHasher) -> Self {
        let pool = BlockPool::new(limits.num_blocks);
        Self {
            limits,
            hasher,
            pool,
            requests: HashMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            loading: Vec::new(),
            held: HashMap::new(),
            stats: SchedulerStats::default(),
        }
    }

    /// Queues a request.
    pub fn add(&mut self, id: RequestId, spec: RequestSpec) {
        let mut request = Request::new(id, spec, self.limits.block_size);
        request.table.extend_hashes(&self.hasher, &request.tokens);
        self.requests.insert(id, request);
        self.waiting.push_back(id);
    }

    /// Drops a request, whatever its state, and frees its blocks.
    pub fn abort(&mut self, id: RequestId) {
        if let Some(mut request) = self.requests.remove(&id) {
            self.waiting.retain(|other| *other != id);
            self.running.retain(|other| *other != id);
            self.loading.retain(|other| *other != id);
            request.table.release(&mut self.pool);
        }
    }

    /// The block pool.
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// The block pool, to reset it or to take its events.
    pub fn pool_mut(&mut self) -> &mut BlockPool {
        &mut self.pool
    }

    /// Counters since the start.
    pub fn stats(&self) -> SchedulerStats {
        self.stats
    }

    /// Number of running requests.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Number of waiting requests, those that wait for KV included.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.loading.len()
    }

    /// Number of requests that wait for KV from another instance.
    pub fn loading(&self) -> usize {
        self.loading.len()
    }

    /// Finished requests whose blocks are held, and those blocks.
    pub fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held.values().map(|table| table.blocks().len()).sum())
    }

    /// Frees the blocks held for another instance. False when they are not held (any more).
    pub fn release_held(&mut self, id: RequestId) -> bool {
        let held = self.held.remove(&id);
        held.map(|mut table| table.release(&mut self.pool)).is_some()
    }

    /// The KV of a loading request has arrived: all of its prompt but the last token, which is always computed here.
    pub fn loaded(&mut self, id: RequestId) {
        let Some(position) = self.loading.iter().position(|other| *other == id) else { return };
        self.loading.swap_remove(position);
        if let Some(request) = self.requests.get_mut(&id) {
            let local = request.computed;
            request.computed = request.tokens.len() - 1;
            request.cached_tokens = Some(request.computed);
            request.kv = KvOrigin::Arrived;
            request.table.cache_full(&mut self.pool, &request.tokens, request.computed);
            self.stats.external_hits += (request.computed - local) as u64;
            self.waiting.push_front(id);
        }
    }

    /// A request that has not finished.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(&id)
    }

    /// Chooses the work of the next step and reserves its blocks. Full blocks are cached here, so that a request
    /// scheduled later in the same step already hits them.
    pub fn schedule(&mut self) -> Step {
        let mut step = Step::default();
        let mut budget = self.limits.max_num_batched_tokens;
        let preempted = self.schedule_running(&mut step, &mut budget);
        if !preempted {
            self.schedule_waiting(&mut step, &mut budget);
        }
        step
    }

    /// Returns whether a request was preempted.
    fn schedule_running(&mut self, step: &mut Step, budget: &mut usize) -> bool {
        let mut preempted = false;
        let mut position = 0;
        while position < self.running.len() && *budget > 0 {
            let id = self.running[position];
            loop {
                if self.grow(id, step, budget) {
                    position += 1;
                    break;
                }
                preempted = true;
                if self.preempt_newest() == Some(id) || self.running.is_empty() {
                    return preempted;
                }
            }
        }
        preempted
    }

    /// Schedules the next tokens of a running request. False when there are no blocks for them.
    fn grow(&mut self, id: RequestId, step: &mut Step, budget: &mut usize) -> bool {
        let Some(request) = self.requests.get_mut(&id) else { return true };
        let count = (request.tokens.len() - request.computed).min(*budget);
        let target = request.computed + count;
        if !request.table.reserve(&mut self.pool, &[], target) {
            return false;
        }
        request.table.cache_full(&mut self.pool, &request.tokens, target);
        note(step, request, count);
        *budget -= count;
        true
    }

    /// Takes the blocks of the newest running request and puts it back at the head of the queue.
    fn preempt_newest(&mut self) -> Option<RequestId> {
        let id = self.running.pop()?;
        if let Some(request) = self.requests.get_mut(&id) {
            request.table.release(&mut self.pool);
            request.computed = 0;
            request.kv = KvOrigin::Local;
            request.preemptions += 1;
            self.stats.preemptions += 1;
            self.waiting.push_front(id);
        }
        Some(id)
    }

    fn schedule_waiting(&mut self, step: &mut Step, budget: &mut usize) {
        while *budget > 0 && self.running.len() < self.limits.max_num_seqs {
            let Some(id) = self.waiting.front().copied() else { return };
            let started = match self.requests.get(&id).map(|request| request.kv) {
                Some(KvOrigin::Remote) => self.start_load(id, step),
                Some(KvOrigin::Arrived) => self.grow(id, step, budget),
                Some(KvOrigin::Local) | None => self.admit(id, step, budget),
            };
            if !started {
                return;
            }
            self.waiting.pop_front();
            if !step.loads.contains(&id) {
                self.running.push(id);
            }
        }
    }

    /// Reserves the blocks of a prompt whose KV comes from another instance. False when there are too few.
    fn start_load(&mut self, id: RequestId, step: &mut Step) -> bool {
        let Some(request) = self.requests.get_mut(&id) else { return true };
        let found = request.table.find_cached(&self.pool, request.tokens.len());
        if !request.table.reserve(&mut self.pool, &found, request.tokens.len()) {
            return false;
        }
        request.computed = found.len() * self.limits.block_size;
        self.stats.prefix_queries += request.tokens.len() as u64;
        self.stats.prefix_hits += request.computed as u64;
        self.stats.external_queries += (request.tokens.len() - request.computed) as u64;
        self.loading.push(id);
        step.loads.push(id);
        true
    }

    /// Starts (or restarts) a waiting request with what the cache holds of it. False when there are no blocks for it.
    fn admit(&mut self, id: RequestId, step: &mut Step, budget: &mut usize) -> bool {
        let Some(request) = self.requests.get_mut(&id) else { return true };
        let found = request.table.find_cached(&self.pool, request.tokens.len());
        let hit = found.len() * self.limits.block_size;
        let count = (request.tokens.len() - hit).min(*budget);
        if !request.table.reserve(&mut self.pool, &found, hit + count) {
            return false;
        }
        request.computed = hit;
        if request.cached_tokens.is_none() {
            request.cached_tokens = Some(hit);
            self.stats.prefix_queries += request.tokens.len() as u64;
            self.stats.prefix_hits += hit as u64;
        }
        request.table.cache_full(&mut self.pool, &request.tokens, hit + count);
        note(step, request, count);
        *budget -= count;
        true
    }

    /// Ends a step: advances its requests, generates their tokens and frees those that finished.
    pub fn complete(&mut self, step: &Step) -> Vec<Emission> {
        let mut emissions = Vec::new();
        let mut finished = Vec::new();
        for (id, count) in &step.scheduled {
            // Aborted, or preempted later in the same step.
            if !self.running.contains(id) {
                continue;
            }
            let Some(request) = self.requests.get_mut(id) else { continue };
            request.computed += count;
            if request.computed < request.tokens.len() {
                continue;
            }
            let index = request.generated();
            let token = (request.answer)(index);
            request.tokens.push(token);
            request.table.extend_hashes(&self.hasher, &request.tokens);
            let finish = request.finish_reason(self.limits.max_model_len);
            if index == 0 {
                self.stats.prompt_tokens += request.prompt_len as u64;
            }
            self.stats.generation_tokens += 1;
            let cached_tokens = request.cached_tokens.unwrap_or(0);
            let hold = request.hold && finish == Some(FinishReason::Length);
            let held = hold.then(|| request.table.blocks().to_vec());
            let output = Output { token, index, finish, cached_tokens, held };
            emissions.push(Emission { request: *id, preemptions: request.preemptions, output });
            if finish.is_some() {
                finished.push(*id);
            }
        }
        finished.into_iter().for_each(|id| self.finish(id));
        emissions
    }

    /// Ends a request: frees its blocks, or holds them for another instance when it ended at the token limit.
    fn finish(&mut self, id: RequestId) {
        let hold = self.requests.get(&id).is_some_and(|request| {
            request.hold && request.finish_reason(self.limits.max_model_len) == Some(FinishReason::Length)
        });
        if !hold {
            return self.abort(id);
        }
        self.running.retain(|other| *other != id);
        if let Some(request) = self.requests.remove(&id) {
            self.held.insert(id, request.table);
        }
    }
}

/// Adds a request's tokens to the step.
fn note(step: &mut Step, request: &Request, count: usize) {
    step.scheduled.push((request.id, count));
    if request.generated() > 0 && request.computed + 1 == request.tokens.len() {
        step.decodes = true;
    } else {
        step.prefill_tokens += count;
    }
}
