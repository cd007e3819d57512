//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde_json::Map;

use super::app::App;
use super::body::{ChatFields, Common, fields, parse_object};
use super::completions::finish;
use super::error::ApiError;
use super::generate::{Api, Asked, Generation};
use crate::model::ChatPrompt;
use crate::transfer::PdProtocol;

pub(super) async fn handle(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let object = parse_object(&body)?;
    let common: Common = fields(&object)?;
    app.find_model(common.model.as_deref())?;
    let chat: ChatFields = fields(&object)?;
    let prompt = tokenize(&app, chat, common.add_special_tokens.unwrap_or(false)).await?;
    let limit = common.max_completion_tokens.or(common.max_tokens);
    let asked =
        Asked { api: Api::Chat, headers: &headers, body: &object, common: &common, prompts: vec![prompt], limit };
    let generation = Generation::check(&app, asked)?;
    finish(app, generation).await
}

/// Renders and tokenizes chat fields, off the asynchronous threads.
pub(super) async fn tokenize(app: &Arc<App>, chat: ChatFields, special: bool) -> Result<Vec<u32>, ApiError> {
    if let (PdProtocol::Trtllm, Some(tokens)) = (app.config.transfer.protocol, chat.prompt_token_ids.clone()) {
        return Ok(tokens);
    }
    let prompt = prompt_of(chat)?;
    let model = app.model.clone();
    let work = move || -> Result<Vec<u32>, ApiError> { Ok(model.encode(&model.render_chat(&prompt)?, special)?) };
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}

fn prompt_of(chat: ChatFields) -> Result<ChatPrompt, ApiError> {
    if chat.messages.is_empty() {
        return Err(ApiError::bad_field("messages", "messages must not be empty"));
    }
    let mut template_arguments = Map::new();
    if let Some(effort) = chat.reasoning_effort {
        template_arguments.insert("reasoning_effort".to_owned(), effort);
    }
    template_arguments.extend(chat.chat_template_kwargs.unwrap_or_default());
    Ok(ChatPrompt {
        messages: chat.messages,
        tools: chat.tools.filter(|tools| !tools.is_empty()),
        documents: chat.documents,
        add_generation_prompt: chat.add_generation_prompt.unwrap_or(true),
        continue_final_message: chat.continue_final_message.unwrap_or(false),
        template_arguments,
    })
}
