//! Prompts tokenized here, for filters whose core cannot: the reference library behind the filter's own body parser and renderer.

use kv_routing::block::{TokenId, chain};
use kv_routing::openai::{Endpoint, Exactness, InferenceRequest, MediaId, PromptInput, ToolChoice};
use kv_routing::tokens::template::{
    HARMONY, RenderError, Rendered, Renderer, RequestedFormat, TemplateConfig, TemplateError, strftime,
};
use kv_routing::tokens::{HashPlan, first_cut, stand_in};
use kv_routing::wire::{Tokenized, UnixMillis};
use thiserror::Error;

use super::harmony::{self, Piece};
use super::{HarmonyError, ModelFiles, Origin, Reference, ReferenceError, RenderOptions};

/// A model's reference tokenizer and renderer, kept in memory.
#[derive(Debug)]
pub struct BridgeTokenizer {
    reference: Reference,
    /// Whether the engine's class cuts long texts, which the library does not.
    cuts_long_texts: bool,
    chats: Chats,
}

/// How chats are rendered.
#[derive(Debug)]
enum Chats {
    Template(Box<Renderer>),
    Harmony { exclude_tools_when_none: bool, utc_offset_ms: i64 },
    Not(TemplateError),
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
    /// Harmony cannot express the messages.
    #[error(transparent)]
    Harmony(#[from] HarmonyError),
    /// The tokenizer is held for chats, whose text knows no special tokens.
    #[error("the bridge tokenizes only chats of this model")]
    ChatsOnly,
    /// The tokenizer lacks a token that harmony needs.
    #[error("the tokenizer has no token `{0}`")]
    NoToken(&'static str),
    /// A post-processor's tokens around a prompt with images.
    #[error("images, audio or video in a prompt that the tokenizer adds special tokens to are not supported")]
    FramedMedia,
}

impl BridgeTokenizer {
    /// Loads the library and the template.
    ///
    /// # Errors
    /// [`ReferenceError`] when the library does not take the files. A template that cannot be used shows at the first chat.
    pub fn load(files: &ModelFiles, options: &RenderOptions) -> Result<Self, ReferenceError> {
        Ok(Self::with(Reference::load(files)?, files, options, Renderer::compile))
    }

    /// Another one, which renders templates as they are written: independent of how the filter changes them before use.
    pub fn as_written(reference: Reference, files: &ModelFiles, options: &RenderOptions) -> Self {
        Self::with(reference, files, options, Renderer::compile_as_written)
    }

    fn with(
        reference: Reference,
        files: &ModelFiles,
        options: &RenderOptions,
        compile: fn(TemplateConfig) -> Result<Renderer, TemplateError>,
    ) -> Self {
        let template = files.templates(options.content_format).map(|template| options.apply(template));
        let (reference, chats) = match template.and_then(compile) {
            Ok(renderer) => (reference, Chats::Template(Box::new(renderer))),
            Err(error) if is_harmony(&error) => {
                let utc_offset_ms = i64::from(options.utc_offset_minutes) * 60_000;
                let exclude_tools_when_none = options.exclude_tools_when_none;
                (reference.literal(), Chats::Harmony { exclude_tools_when_none, utc_offset_ms })
            }
            Err(error) => (reference, Chats::Not(error)),
        };
        Self { reference, cuts_long_texts: files.origin == Origin::Tiktoken, chats }
    }

    /// Whether chats of this model can be rendered here and not in the filter.
    pub fn renders_what_the_core_cannot(files: &ModelFiles) -> bool {
        files.templates(RequestedFormat::Auto).is_err_and(|error| is_harmony(&error))
    }

    /// Why chats cannot be rendered, when they cannot.
    pub fn template_problem(&self) -> Option<&TemplateError> {
        match &self.chats {
            Chats::Not(error) => Some(error),
            Chats::Template(_) | Chats::Harmony { .. } => None,
        }
    }

    /// Tokenizes the prompt of `request`. Takes some 3 us a token.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn tokenize(&self, request: &InferenceRequest<'_>, now: UnixMillis) -> Result<BridgePrompt, BridgeError> {
        if let Exactness::Approximate(reason) = request.exactness {
            return Err(BridgeError::Approximate(reason.as_str()));
        }
        let rendered = match (&request.prompt, &self.chats) {
            (PromptInput::Chat(chat), Chats::Template(renderer)) => renderer.render(chat, now)?,
            (PromptInput::Chat(chat), Chats::Harmony { exclude_tools_when_none, utc_offset_ms }) => {
                if request.endpoint != Endpoint::ChatCompletions {
                    return Err(HarmonyError::Endpoint.into());
                }
                let with_tools = !(*exclude_tools_when_none && chat.tool_choice == ToolChoice::None);
                let local = i64::try_from(now.0).unwrap_or(i64::MAX).saturating_add(*utc_offset_ms);
                let date = strftime("%Y-%m-%d", local).unwrap_or_default();
                return self.encode_pieces(harmony::render(chat, with_tools, &date)?);
            }
            (PromptInput::Chat(_), Chats::Not(error)) => return Err(error.clone().into()),
            (PromptInput::Text(_), Chats::Harmony { .. }) => return Err(BridgeError::ChatsOnly),
            (PromptInput::Text(text), _) => {
                Rendered { text: text.to_string(), exact_bytes: text.len(), media: Vec::new() }
            }
            (PromptInput::Tokens(_) | PromptInput::Absent, _) => return Err(BridgeError::Absent),
        };
        self.encode(rendered, request.add_special_tokens)
    }

    fn encode_pieces(&self, pieces: Vec<Piece>) -> Result<BridgePrompt, BridgeError> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Special(token) => {
                    text.push_str(token);
                    tokens.push(self.reference.id(token).ok_or(BridgeError::NoToken(token))?);
                }
                Piece::Text(piece) => {
                    tokens.extend(self.reference.encode(&piece, false)?);
                    text.push_str(&piece);
                }
            }
        }
        let exact_tokens = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        Ok(BridgePrompt { text, tokens, exact_tokens })
    }

    /// Images and the like part the text: the tokens on either side never join.
    fn encode(&self, rendered: Rendered, add_special_tokens: bool) -> Result<BridgePrompt, BridgeError> {
        let Rendered { text, mut exact_bytes, media } = rendered;
        if self.cuts_long_texts {
            exact_bytes = exact_bytes.min(first_cut(&text).unwrap_or(text.len()));
        }
        let framed = add_special_tokens && !self.reference.encode("", true)?.is_empty();
        if framed && !media.is_empty() {
            return Err(BridgeError::FramedMedia);
        }
        let end = (text.len(), None);
        let cuts = media.iter().map(|(at, item)| (*at, Some(*item))).chain([end]);
        let (mut tokens, mut exact, mut start) = (Vec::new(), 0, 0);
        for (cut, item) in cuts {
            let piece = text.get(start..cut).unwrap_or_default();
            tokens.extend(self.reference.encode(piece, framed)?);
            if cut <= exact_bytes {
                exact = tokens.len();
            }
            tokens.extend(item.map(|item: MediaId| stand_in(item)));
            start = cut;
        }
        Ok(BridgePrompt { text, tokens, exact_tokens: u32::try_from(exact).unwrap_or(u32::MAX) })
    }
}

fn is_harmony(error: &TemplateError) -> bool {
    matches!(error, TemplateError::OtherRenderer { by: HARMONY, .. })
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
