//! `POST /v1/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;

use super::answer;
use super::app::App;
use super::body::{Common, Prompt, fields, parse_object};
use super::error::ApiError;
use super::generate::{Api, Asked, Generation};
use super::stream;

/// Answer tokens of a completion that sets no limit.
const DEFAULT_MAX_TOKENS: i64 = 16;

#[derive(Deserialize)]
struct CompletionFields {
    prompt: Prompt,
}

pub(super) async fn handle(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let object = parse_object(&body)?;
    let common: Common = fields(&object)?;
    app.find_model(common.model.as_deref())?;
    let CompletionFields { prompt } = fields(&object)?;
    let prompts = tokenize(&app, prompt, common.add_special_tokens.unwrap_or(true)).await?;
    if prompts.is_empty() {
        return Err(ApiError::bad_field("prompt", "please provide at least one prompt"));
    }
    let limit = common.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let asked =
        Asked { api: Api::Completion, headers: &headers, body: &object, common: &common, prompts, limit: Some(limit) };
    let generation = Generation::check(&app, asked)?;
    finish(app, generation).await
}

/// Tokens of every prompt.
pub(super) async fn tokenize(app: &Arc<App>, prompt: Prompt, special: bool) -> Result<Vec<Vec<u32>>, ApiError> {
    let texts = match prompt {
        Prompt::Tokens(tokens) => return Ok(vec![tokens]),
        Prompt::TokenLists(lists) => return Ok(lists),
        Prompt::Text(text) => vec![text],
        Prompt::Texts(texts) => texts,
    };
    let model = app.model.clone();
    let work = move || -> Result<Vec<Vec<u32>>, ApiError> {
        texts.iter().map(|text| Ok(model.encode(text, special)?)).collect()
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}

/// Starts a checked request and answers it, whole or streamed.
pub(super) async fn finish(app: Arc<App>, generation: Generation) -> Result<Response, ApiError> {
    let break_after = app.take_stream_break();
    let choices = generation.start(&app).await?;
    if generation.stream {
        return Ok(stream::streamed(app, generation, choices, break_after));
    }
    answer::whole(&app, &generation, choices).await
}
