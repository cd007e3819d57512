//! One request inside the scheduler.

use crate::cache::{BlockId, BlockTable, CacheScope};

/// Name of a request within one rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(pub u64);

/// Why generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishReason {
    /// The model ended its answer.
    Stop,
    /// The token limit was reached.
    Length,
}

impl FinishReason {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// The tokens a request will generate. They are known from the start, since they depend on the prompt alone.
pub type AnswerTokens = Box<dyn Fn(usize) -> u32 + Send>;

/// What a request asks for.
pub struct RequestSpec {
    /// Prompt tokens, at least one.
    pub prompt: Vec<u32>,
    /// Adapter and salt.
    pub scope: CacheScope,
    /// Answer tokens at most, at least one.
    pub max_tokens: u32,
    /// The answer ends by itself after this many tokens, the last one being the end-of-sequence token.
    pub stop_after: Option<u32>,
    /// Answer token by index.
    pub answer: AnswerTokens,
    /// Keep the blocks after the end, for another instance to fetch.
    pub hold: bool,
    /// The prompt's KV comes from another instance: reserve blocks, wait for [`super::Scheduler::loaded`].
    pub load: bool,
}

/// A request and its progress.
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Prompt and answer so far.
    pub tokens: Vec<u32>,
    /// Length of the prompt.
    pub prompt_len: usize,
    /// Tokens whose KV is in its blocks.
    pub computed: usize,
    /// Prompt tokens found in the cache when it was first scheduled.
    pub cached_tokens: Option<usize>,
    /// Times it lost its blocks to another request.
    pub preemptions: u32,
    pub(super) table: BlockTable,
    pub(super) max_tokens: usize,
    pub(super) stop_after: Option<usize>,
    pub(super) answer: AnswerTokens,
    pub(super) hold: bool,
    pub(super) kv: KvOrigin,
}

/// Where the KV of a request's prompt comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KvOrigin {
    /// This rank's cache and computation.
    Local,
    /// Another instance; not here yet.
    Remote,
    /// Another instance; here, in this request's blocks.
    Arrived,
}

impl Request {
    pub(super) fn new(id: RequestId, spec: RequestSpec, block_size: usize) -> Self {
        Self {
            id,
            prompt_len: spec.prompt.len(),
            tokens: spec.prompt,
            computed: 0,
            cached_tokens: None,
            preemptions: 0,
            table: BlockTable::new(block_size, spec.scope),
            max_tokens: spec.max_tokens.max(1) as usize,
            stop_after: spec.stop_after.map(|count| count.max(1) as usize),
            answer: spec.answer,
            hold: spec.hold,
            kv: if spec.load { KvOrigin::Remote } else { KvOrigin::Local },
        }
    }

    /// Answer tokens so far.
    pub fn generated(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    pub(super) fn finish_reason(&self, max_model_len: usize) -> Option<FinishReason> {
        if self.stop_after == Some(self.generated()) {
            return Some(FinishReason::Stop);
        }
        (self.generated() >= self.max_tokens || self.tokens.len() >= max_model_len).then_some(FinishReason::Length)
    }
}

/// One generated token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The token.
    pub token: u32,
    /// Its index in the answer.
    pub index: usize,
    /// Set on the last one.
    pub finish: Option<FinishReason>,
    /// Prompt tokens found in the cache.
    pub cached_tokens: usize,
    /// On the last token of a request that keeps its blocks: which ones.
    pub held: Option<Vec<BlockId>>,
}
