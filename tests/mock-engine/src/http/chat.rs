//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;

use super::app::App;
use super::body::{Common, fields, parse_object};
use super::completions::finish;
use super::error::ApiError;
use super::generate::{Api, Asked, Generation};
use crate::model::ChatPrompt;
use crate::transfer::PdProtocol;

pub(super) async fn handle(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let object = parse_object(&body)?;
    let common: Common = fields(&object)?;
    app.find_model(common.model.as_deref())?;
    let chat: ChatPrompt = fields(&object)?;
    let prompt = tokenize(&app, chat, common.add_special_tokens.unwrap_or(false)).await?;
    let limit = common.max_completion_tokens.or(common.max_tokens);
    let asked =
        Asked { api: Api::Chat, headers: &headers, body: &object, common: &common, prompts: vec![prompt], limit };
    let generation = Generation::check(&app, asked)?;
    finish(app, generation).await
}

/// Renders and tokenizes a chat, off the asynchronous threads.
pub(super) async fn tokenize(app: &Arc<App>, mut chat: ChatPrompt, special: bool) -> Result<Vec<u32>, ApiError> {
    if app.config.transfer.protocol == PdProtocol::Trtllm
        && let Some(tokens) = chat.prompt_token_ids.take()
    {
        return Ok(tokens);
    }
    let model = app.model.clone();
    let work = move || -> Result<Vec<u32>, ApiError> { Ok(model.encode(&model.render_chat(&chat)?, special)?) };
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}
