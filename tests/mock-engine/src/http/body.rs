//! Request bodies: the fields that matter here; everything else is accepted and ignored, as vLLM does.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::ApiError;

/// Fields that chat and completion requests share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    pub(super) max_tokens: Option<i64>,
    pub(super) max_completion_tokens: Option<i64>,
    pub(super) min_tokens: Option<u32>,
    pub(super) n: Option<i64>,
    pub(super) seed: Option<i64>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) ignore_eos: Option<bool>,
    pub(super) return_token_ids: Option<bool>,
    pub(super) cache_salt: Option<String>,
    pub(super) add_special_tokens: Option<bool>,
    pub(super) vllm_xargs: Option<Map<String, Value>>,
}

/// `stream_options`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
    pub(super) continuous_usage_stats: Option<bool>,
}

/// The prompt of a completion request.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

/// Parses a body into an object, or says what is wrong with it.
pub(super) fn parse_object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ApiError::bad_request("the request body must be a JSON object")),
        Err(error) => Err(ApiError::bad_request(format!("JSON decode error: {error}"))),
    }
}

/// Reads typed fields out of an object.
pub(super) fn fields<T: DeserializeOwned>(object: &Map<String, Value>) -> Result<T, ApiError> {
    T::deserialize(Value::Object(object.clone())).map_err(|error| ApiError::bad_request(error.to_string()))
}
