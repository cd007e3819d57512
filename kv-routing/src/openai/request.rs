//! What routing needs of one request.

use std::borrow::Cow;

use thiserror::Error;

use super::chat::ChatInput;
use super::endpoint::Endpoint;
use super::json::JsonError;
use crate::block::TokenId;

/// What routing needs of one request. Strings borrow from the body where JSON allows it.
#[derive(Clone, Debug)]
pub struct InferenceRequest<'a> {
    /// Path it came on.
    pub endpoint: Endpoint,
    /// `model`.
    pub model: Option<Cow<'a, str>>,
    /// `stream`.
    pub stream: bool,
    /// Most output tokens the client wants: `max_completion_tokens`, `max_tokens`, `max_output_tokens` or
    /// `sampling_params.max_new_tokens`, whichever the endpoint has.
    pub max_tokens: Option<u32>,
    /// `n`: sequences to generate from the one prompt.
    pub n: u32,
    /// `cache_salt`.
    pub cache_salt: Option<Cow<'a, str>>,
    /// `user`.
    pub user: Option<Cow<'a, str>>,
    /// `priority`, as vLLM takes it: lower is earlier.
    pub priority: Option<i64>,
    /// `add_special_tokens`, or the endpoint's default: whether the tokenizer's post-processor adds its tokens
    /// (a BOS, say). Chats leave that to the template, but vLLM adds them to `/v1/responses` all the same.
    pub add_special_tokens: bool,
    /// Prompts in the body. The first one decides, the engine computes all.
    pub prompts: u32,
    /// The prompt.
    pub prompt: PromptInput<'a>,
    /// Whether the tokens of the prompt can be the engine's.
    pub exactness: Exactness,
}

impl InferenceRequest<'_> {
    /// An empty request with the defaults of `endpoint`.
    pub(crate) fn empty(endpoint: Endpoint) -> Self {
        let templated = matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Responses | Endpoint::Messages);
        Self {
            endpoint,
            model: None,
            stream: false,
            max_tokens: None,
            n: 1,
            cache_salt: None,
            user: None,
            priority: None,
            add_special_tokens: !templated,
            prompts: 1,
            prompt: PromptInput::Absent,
            exactness: Exactness::Exact,
        }
    }
}

/// The prompt as the body has it.
#[derive(Clone, Debug)]
pub enum PromptInput<'a> {
    /// Text to be tokenized as it is.
    Text(Cow<'a, str>),
    /// Token ids.
    Tokens(Vec<TokenId>),
    /// Messages to be rendered.
    Chat(Box<ChatInput<'a>>),
    /// Nothing routing could use.
    Absent,
}

/// Whether the tokens made of a body can be those the engine makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// They can.
    Exact,
    /// Up to the first image, audio or video. What follows has stable stand-ins, since the number of tokens that an
    /// item takes is known to the engine alone.
    UpToMedia,
    /// They need not be: the reason. Such a prompt routes by affinity only and is counted apart.
    Approximate(Inexact),
}

/// Why a prompt is only approximately the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inexact {
    /// `truncate_prompt_tokens` is set: the engine keeps a part that depends on the token count.
    Truncated,
    /// The prompt is given as embeddings.
    Embeddings,
    /// The conversation begins in an earlier response (`previous_response_id`, `conversation`, a stored `prompt`).
    StoredHistory,
    /// The body has an item or block that engines map in their own ways.
    Untranslated,
}

impl Inexact {
    /// Word for counters and explanations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Embeddings => "embeddings",
            Self::StoredHistory => "stored_history",
            Self::Untranslated => "untranslated",
        }
    }
}

/// Why a body cannot be used. Never an error to the client: the request passes on and the engine answers.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BodyError {
    /// Not JSON, or not a JSON object.
    #[error("request body is not a JSON object: {0}")]
    Json(String),
    /// A field routing needs has another type than the API says.
    #[error("field `{field}` of the request body: {problem}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl BodyError {
    pub(crate) fn field(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Field { field, problem: problem.into() }
    }
}

impl From<JsonError> for BodyError {
    fn from(error: JsonError) -> Self {
        Self::Json(error.to_string())
    }
}
