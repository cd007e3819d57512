//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::app::App;
use super::body::{ChatFields, Common, fields, parse_object};
use super::completions::finish;
use super::error::ApiError;
use super::generate::{Api, Generation};
use crate::model::ChatPrompt;

pub(super) async fn handle(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let object = parse_object(&body)?;
    let common: Common = fields(&object)?;
    app.find_model(common.model.as_deref())?;
    let chat: ChatFields = fields(&object)?;
    let prompt = tokenize(&app, chat, common.add_special_tokens.unwrap_or(false)).await?;
    let limit = chat_limit(&object).or(common.max_tokens);
    let generation = Generation::check(&app, Api::Chat, &headers, &common, vec![prompt], limit)?;
    finish(app, generation).await
}

fn chat_limit(object: &Map<String, Value>) -> Option<i64> {
    object.get("max_completion_tokens").and_then(Value::as_i64)
}

/// Renders and tokenizes chat fields, off the asynchronous threads.
pub(super) async fn tokenize(app: &Arc<App>, chat: ChatFields, special: bool) -> Result<Vec<u32>, ApiError> {
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
