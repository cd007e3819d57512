//! The paths the filter acts on.

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
    /// Every endpoint.
    pub const ALL: [Self; 7] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::Generate,
        Self::InferenceGenerate,
    ];

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
            Self::Generate => "/generate",
            Self::InferenceGenerate => "/inference/v1/generate",
        }
    }

    /// The endpoint of a request path; the query string does not count.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        Self::ALL.into_iter().find(|endpoint| endpoint.path() == path)
    }
}
