//! Prompts tokenized here, for filters whose core cannot: the reference library behind the filter's own body parser and renderer.

use kv_routing::block::{TokenId, chain};
use kv_routing::openai::{Exactness, InferenceRequest, MediaId, PromptInput};
use kv_routing::tokens::template::{RenderError, Rendered, Renderer, TemplateError};
use kv_routing::tokens::{HashPlan, stand_in};
use kv_routing::wire::{Tokenized, UnixMillis};
use thiserror::Error;

use super::{ModelFiles, Reference, ReferenceError, RenderOptions};

/// A model's reference tokenizer and renderer, kept in memory.
#[derive(Debug)]
pub struct BridgeTokenizer {
    reference: Reference,
    renderer: Result<Renderer, TemplateError>,
}

/// A prompt as the reference tokenizes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgePrompt {
    /// What was tokenized; stand-ins for images and the like are not in it.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// The first of them, which are the engine's.
    pub exact_tokens: u32,
}

/// Why a prompt cannot be tokenized here.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// Nothing that needs a tokenizer.
    #[error("the body has no text and no messages")]
    Absent,
    /// Only the engine can resolve the body.
    #[error("the body is only approximately the engine's: {0}")]
    Approximate(&'static str),
    /// The model's chats cannot be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The template refused the messages.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The library failed.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// A post-processor's tokens around a prompt with images.
    #[error("`add_special_tokens` together with images, audio or video is not supported")]
    FramedMedia,
}

impl BridgeTokenizer {
    /// Loads the library and the template.
    ///
    /// # Errors
    /// [`ReferenceError`] when the library does not take the files. A template that cannot be used shows at the first chat.
    pub fn load(files: &ModelFiles, options: &RenderOptions) -> Result<Self, ReferenceError> {
        let renderer = files.templates(options.content_format).map(|template| options.apply(template));
        Ok(Self { reference: Reference::load(files)?, renderer: renderer.and_then(Renderer::compile) })
    }

    /// Why chats cannot be rendered, when they cannot.
    pub fn template_problem(&self) -> Option<&TemplateError> {
        self.renderer.as_ref().err()
    }

    /// Tokenizes the prompt of `request`. Takes some 3 us a token.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn tokenize(&self, request: &InferenceRequest<'_>, now: UnixMillis) -> Result<BridgePrompt, BridgeError> {
        if let Exactness::Approximate(reason) = request.exactness {
            return Err(BridgeError::Approximate(reason.as_str()));
        }
        let rendered = match &request.prompt {
            PromptInput::Text(text) => Rendered { text: text.to_string(), exact_bytes: text.len(), media: Vec::new() },
            PromptInput::Chat(chat) => self.renderer.as_ref().map_err(Clone::clone)?.render(chat, now)?,
            PromptInput::Tokens(_) | PromptInput::Absent => return Err(BridgeError::Absent),
        };
        self.encode(rendered, request.add_special_tokens)
    }

    /// Images and the like part the text: the tokens on either side never join.
    fn encode(&self, rendered: Rendered, add_special_tokens: bool) -> Result<BridgePrompt, BridgeError> {
        let Rendered { text, exact_bytes, media } = rendered;
        if add_special_tokens && !media.is_empty() {
            return Err(BridgeError::FramedMedia);
        }
        let end = (text.len(), None);
        let cuts = media.iter().map(|(at, item)| (*at, Some(*item))).chain([end]);
        let (mut tokens, mut exact, mut start) = (Vec::new(), 0, 0);
        for (cut, item) in cuts {
            let piece = text.get(start..cut).unwrap_or_default();
            tokens.extend(self.reference.encode(piece, add_special_tokens)?);
            if cut <= exact_bytes {
                exact = tokens.len();
            }
            tokens.extend(item.map(|item: MediaId| stand_in(item)));
            start = cut;
        }
        Ok(BridgePrompt { text, tokens, exact_tokens: u32::try_from(exact).unwrap_or(u32::MAX) })
    }
}

impl BridgePrompt {
    /// What a filter needs of it.
    pub fn hashed(&self, plan: HashPlan) -> Tokenized {
        Tokenized {
            tokens: u32::try_from(self.tokens.len()).unwrap_or(u32::MAX),
            exact_tokens: self.exact_tokens,
            chain: chain(&self.tokens, plan.block_size, plan.seed),
        }
    }
}
