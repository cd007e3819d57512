//! Request bodies of the OpenAI-compatible API to what routing needs of them.

use std::borrow::Cow;

use thiserror::Error;

use crate::block::TokenId;

/// The inference paths the filter acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
    /// `/v1/embeddings`
    Embeddings,
    /// `/generate` (SGLang)
    Generate,
    /// `/inference/v1/generate` (vLLM)
    InferenceGenerate,
}

impl Endpoint {
    /// The endpoint of a request path; the query string does not count.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        Some(match path {
            "/v1/chat/completions" => Self::ChatCompletions,
            "/v1/completions" => Self::Completions,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/embeddings" => Self::Embeddings,
            "/generate" => Self::Generate,
            "/inference/v1/generate" => Self::InferenceGenerate,
            _ => return None,
        })
    }
}

/// What routing needs of one request. Strings borrow from the body where JSON allows it.
#[derive(Clone, Debug)]
pub struct InferenceRequest<'a> {
    /// Path it came on.
    pub endpoint: Endpoint,
    /// `model`.
    pub model: Option<Cow<'a, str>>,
    /// `stream`.
    pub stream: bool,
    /// `max_completion_tokens` or `max_tokens`.
    pub max_tokens: Option<u32>,
    /// `cache_salt`.
    pub cache_salt: Option<Cow<'a, str>>,
    /// `user`.
    pub user: Option<Cow<'a, str>>,
    /// `priority`, as vLLM takes it.
    pub priority: Option<i64>,
    /// The prompt.
    pub prompt: PromptInput<'a>,
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

/// Messages and everything else a chat template sees.
#[derive(Clone, Debug, Default)]
pub struct ChatInput<'a> {
    placeholder: std::marker::PhantomData<&'a ()>,
}

/// Why a body cannot be used. Never an error to the client: the request passes on and the engine answers.
#[derive(Debug, Error, PartialEq, Eq)]
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

/// Reads a body in one pass.
///
/// # Errors
/// [`BodyError`] when routing cannot use it.
pub fn parse(endpoint: Endpoint, body: &[u8]) -> Result<InferenceRequest<'_>, BodyError> {
    let _ = body;
    Ok(InferenceRequest {
        endpoint,
        model: None,
        stream: false,
        max_tokens: None,
        cache_salt: None,
        user: None,
        priority: None,
        prompt: PromptInput::Absent,
    })
}
