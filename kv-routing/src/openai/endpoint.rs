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
