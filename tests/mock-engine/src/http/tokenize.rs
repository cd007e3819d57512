//! `POST /tokenize`, completion and chat form, and `POST /detokenize`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::App;
use super::body::{Prompt, fields, parse_object};
use super::error::ApiError;
use super::{chat, completions};
use crate::model::ChatPrompt;

#[derive(Deserialize)]
struct TokenizeFields {
    model: Option<String>,
    prompt: Option<String>,
    add_special_tokens: Option<bool>,
    return_token_strs: Option<bool>,
}

#[derive(Deserialize)]
struct DetokenizeFields {
    model: Option<String>,
    tokens: Vec<u32>,
}

pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, ApiError> {
    let object = parse_object(&body)?;
    let request: TokenizeFields = fields(&object)?;
    app.find_model(request.model.as_deref())?;
    let tokens = match request.prompt {
        Some(text) => {
            let special = request.add_special_tokens.unwrap_or(true);
            completions::tokenize(&app, Prompt::Text(text), special).await?.pop().unwrap_or_default()
        }
        None => {
            let prompt: ChatPrompt = fields(&object)?;
            chat::tokenize(&app, prompt, request.add_special_tokens.unwrap_or(false)).await?
        }
    };
    let strings = request.return_token_strs.unwrap_or(false).then(|| app.model.token_strings(&tokens));
    Ok(Json(json!({
        "count": tokens.len(),
        "max_model_len": app.max_model_len,
        "tokens": tokens,
        "token_strs": strings,
    })))
}

pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, ApiError> {
    let object = parse_object(&body)?;
    let request: DetokenizeFields = fields(&object)?;
    app.find_model(request.model.as_deref())?;
    Ok(Json(json!({"prompt": app.model.decode(&request.tokens)?})))
}
