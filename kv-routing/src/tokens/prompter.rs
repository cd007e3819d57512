//! The facade: one model's renderer and tokenizer with their caches.

use thiserror::Error;

use super::cache::CacheStats;
use super::image::ImageError;
use super::long::first_cut;
use super::prepare::{Caches, Preparation, Source};
use super::template::{RenderError, Renderer, TemplateError};
use super::tokenizer::Tokenizer;
use crate::block::{BlockSize, ChainHasher, HashSeed, SequenceHash, TokenId};
use crate::openai::{InferenceRequest, MediaId, PromptInput};
use crate::wire::UnixMillis;

/// Places of the word cache as a power of two.
const WORD_BITS: u32 = 14;

/// Bytes of text per slice that keep it under 5 ms of an Envoy thread.
pub const SLICE_BYTES: u32 = 32 << 10;

/// One model's renderer and tokenizer with their caches; one per tokenizer and VM.
#[derive(Debug)]
pub struct Prompter {
    tokenizer: Tokenizer,
    renderer: Option<Renderer>,
    caches: Caches,
}

/// Bounds of the caches of one [`Prompter`].
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Bytes of cached text, ids and hashes.
    pub bytes: u32,
}

impl Default for CacheLimits {
    fn default() -> Self {
        // With tokenizer tables and the largest prompts at work this keeps a VM under 40 MiB.
        Self { bytes: 16 << 20 }
    }
}

/// How the hashes are chained for one request.
#[derive(Clone, Copy, Debug)]
pub struct HashPlan {
    /// Tokens per block.
    pub block_size: BlockSize,
    /// Adapter and salt.
    pub seed: HashSeed,
}

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
    /// The first of them, which are the engine's: all, or those before the first image, audio or video. Behind it, every such item
    /// has one stand-in token, the same for the same item.
    pub exact_tokens: u32,
    /// Sequence hashes of its full blocks.
    pub chain: Vec<SequenceHash>,
    /// Its first tokens, at most [`crate::block::HEAD_TOKENS`].
    pub head: Vec<TokenId>,
    /// Bytes of text tokenized anew.
    pub fresh_bytes: u32,
    /// Bytes of text whose tokens came from the cache.
    pub cached_bytes: u32,
}

/// Why a compiled tokenizer cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// Not a compiled tokenizer, damaged, or made by another release.
    #[error("compiled tokenizer: {0}")]
    Image(#[from] ImageError),
    /// The chat template does not compile.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Why one prompt cannot be prepared exactly.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PromptError {
    /// Nothing to tokenize in the body.
    #[error("the request has no prompt routing can use")]
    Absent,
    /// The model has no chat template.
    #[error("a chat request, but the model's files have no chat template")]
    NoTemplate,
    /// The chat template refused the messages.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl Prompter {
    /// Takes a compiled tokenizer (all parts, in order) and uses its tables in place.
    ///
    /// # Errors
    /// [`LoadError`] when it is damaged, of another version, or its template does not compile.
    pub fn load(compiled: Vec<u8>, limits: CacheLimits) -> Result<Self, LoadError> {
        let tokenizer = Tokenizer::load(compiled)?;
        let renderer = tokenizer.template()?.map(Renderer::compile).transpose()?;
        let caches = Caches::new(WORD_BITS, limits.bytes, 0);
        Ok(Self { tokenizer, renderer, caches })
    }

    /// The tokenizer inside.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The renderer inside, if the model has a chat template.
    pub fn renderer(&self) -> Option<&Renderer> {
        self.renderer.as_ref()
    }

    /// What the caches have done so far.
    pub fn cache_stats(&self) -> CacheStats {
        self.caches.stats()
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
        match &request.prompt {
            PromptInput::Text(text) => Ok(self.begin_text(text.to_string(), request.add_special_tokens, plan)),
            PromptInput::Chat(chat) => {
                let renderer = self.renderer.as_ref().ok_or(PromptError::NoTemplate)?;
                let rendered = renderer.render(chat, now)?;
                let source = Source {
                    exact_bytes: rendered.exact_bytes.min(self.exact_bytes(&rendered.text)),
                    text: rendered.text,
                    stand_ins: rendered.media.iter().map(|(at, item)| (*at, stand_in(*item))).collect(),
                    framed: request.add_special_tokens,
                    keep: false,
                };
                Ok(Preparation::new(&self.tokenizer, &self.caches, source, plan))
            }
            PromptInput::Tokens(_) | PromptInput::Absent => Err(PromptError::Absent),
        }
    }

    /// Gets ready to tokenize a text that needs no rendering; `add_special_tokens`: with what the post-processor puts around it.
    pub fn begin_text(&self, text: String, add_special_tokens: bool, plan: HashPlan) -> Preparation {
        let source = Source { exact_bytes: self.exact_bytes(&text), ..Source::text(text, add_special_tokens) };
        Preparation::new(&self.tokenizer, &self.caches, source, plan)
    }

    /// Bytes of a text that are tokenized as the engine does.
    fn exact_bytes(&self, text: &str) -> usize {
        let cut = if self.tokenizer.meta().flags.cuts_long_texts { first_cut(text) } else { None };
        cut.unwrap_or(text.len())
    }

    /// Tokenizes and hashes about `budget_bytes` of text that is not cached. The slices do not change the result.
    pub fn advance(&mut self, preparation: &mut Preparation, budget_bytes: u32) -> Progress {
        if preparation.advance(&self.tokenizer, &mut self.caches, budget_bytes) {
            Progress::Done(preparation.take_result())
        } else {
            Progress::More
        }
    }

    /// The tokens of a text, for tools and tests; the same way as a prompt goes, without the caches of whole chunks.
    pub fn encode(&mut self, text: &str, add_special_tokens: bool) -> Vec<TokenId> {
        // One block per prompt at most: nobody looks at the hashes.
        let Some(block_size) = BlockSize::new(BlockSize::MAX) else { return Vec::new() };
        let plan = HashPlan { block_size, seed: HashSeed::default() };
        let source = Source { keep: true, ..Source::text(text.to_owned(), add_special_tokens) };
        let mut preparation = Preparation::new(&self.tokenizer, &self.caches, source, plan);
        while !preparation.advance(&self.tokenizer, &mut self.caches, u32::MAX) {}
        preparation.take_tokens()
    }
}

/// The token in the place of an image or the like, above every vocabulary; Dynamo's router makes the same of an item's hash.
pub fn stand_in(item: MediaId) -> TokenId {
    TokenId(1_000_000 + (item.0 & 0x3fff_ffff) as u32)
}

/// Hashes a prompt that came as token ids.
pub fn prepare_tokens(tokens: &[TokenId], plan: HashPlan) -> PreparedPrompt {
    let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
    let mut hasher = ChainHasher::new(plan.block_size, plan.seed);
    hasher.push_all(tokens);
    let (chain, head) = hasher.into_parts();
    PreparedPrompt { tokens: count, exact_tokens: count, chain, head, fresh_bytes: 0, cached_bytes: 0 }
}
