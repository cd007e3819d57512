//! Prompt to tokens to block hashes: template, tokenizer, segment cache behind one facade.

pub mod template;

use thiserror::Error;

use crate::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use crate::openai::InferenceRequest;
use crate::wire::UnixMillis;

/// One model's renderer and tokenizer with their caches; one per tokenizer and VM.
#[derive(Debug)]
pub struct Prompter {}

/// Bounds of the caches of one [`Prompter`].
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Bytes of cached text, ids and hashes.
    pub bytes: u32,
}

/// How the hashes are chained for one request.
#[derive(Clone, Copy, Debug)]
pub struct HashPlan {
    /// Tokens per block.
    pub block_size: BlockSize,
    /// Adapter and salt.
    pub seed: HashSeed,
}

/// A prompt being prepared, so that a long one can be done in slices.
#[derive(Debug)]
pub struct Preparation {}

/// State of a [`Preparation`] after one slice.
#[derive(Debug)]
pub enum Progress {
    /// Call [`Prompter::advance`] again.
    More,
    /// Ready.
    Done(PreparedPrompt),
}

/// A prompt ready to be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedPrompt {
    /// Prompt tokens.
    pub tokens: u32,
    /// Sequence hashes of its full blocks.
    pub chain: Vec<SequenceHash>,
    /// Bytes of text tokenized anew.
    pub fresh_bytes: u32,
    /// Bytes of text whose tokens came from the cache.
    pub cached_bytes: u32,
}

/// Why a compiled tokenizer cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// Not a compiled tokenizer, or damaged.
    #[error("compiled tokenizer: {0}")]
    Malformed(String),
    /// Made by another release.
    #[error("compiled tokenizer of format {found}, this build reads {expected}: compile it again")]
    Version {
        /// Its format.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The chat template does not compile.
    #[error("chat template: {0}")]
    Template(String),
}

/// Why one prompt cannot be prepared exactly.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PromptError {
    /// Nothing to tokenize in the body.
    #[error("the request has no prompt routing can use")]
    Absent,
    /// The chat template refused the messages or is not there.
    #[error("chat template: {0}")]
    Template(String),
    /// Too long for the configured bound.
    #[error("prompt of {bytes} bytes is over the bound of {bound}")]
    TooLong {
        /// Bytes of the prompt.
        bytes: u32,
        /// The bound.
        bound: u32,
    },
}

impl Prompter {
    /// Takes a compiled tokenizer (all parts, in order) and uses its tables in place.
    ///
    /// # Errors
    /// [`LoadError`] when it is damaged, of another version, or its template does not compile.
    pub fn load(compiled: Vec<u8>, limits: CacheLimits) -> Result<Self, LoadError> {
        let _ = (compiled, limits);
        Ok(Self {})
    }

    /// Renders the prompt of `request` and gets ready to tokenize it. Token-id prompts need no prompter: see [`prepare_tokens`].
    ///
    /// # Errors
    /// [`PromptError`] when the prompt cannot be prepared exactly.
    pub fn begin(
        &mut self,
        request: &InferenceRequest<'_>,
        plan: HashPlan,
        now: UnixMillis,
    ) -> Result<Preparation, PromptError> {
        let _ = (request, plan, now);
        Ok(Preparation {})
    }

    /// Tokenizes and hashes about `budget_bytes` of text that is not cached.
    pub fn advance(&mut self, preparation: &mut Preparation, budget_bytes: u32) -> Progress {
        let _ = (preparation, budget_bytes);
        Progress::Done(PreparedPrompt::default())
    }
}

/// Hashes a prompt that came as token ids.
pub fn prepare_tokens(tokens: &[TokenId], plan: HashPlan) -> PreparedPrompt {
    PreparedPrompt {
        tokens: u32::try_from(tokens.len()).unwrap_or(u32::MAX),
        chain: crate::block::chain(tokens, plan.block_size, plan.seed),
        fresh_bytes: 0,
        cached_bytes: 0,
    }
}
