//! Whole answers: waits for every choice and writes one JSON object.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::app::App;
use super::error::ApiError;
use super::generate::{Api, Generation};
use super::usage::Usage;
use crate::engine::Ticket;
use crate::sched::FinishReason;

/// One finished choice.
struct Choice {
    tokens: Vec<u32>,
    text: String,
    finish: FinishReason,
}

/// Runs a generation to its end and answers it.
pub(super) async fn whole(app: &App, generation: &Generation, tickets: Vec<Ticket>) -> Result<Response, ApiError> {
    let delay = app.faults().first_token_delay();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let mut usage = Usage::default();
    let mut choices = Vec::new();
    for ticket in tickets {
        choices.push(collect(app, ticket, &mut usage).await?);
    }
    let usage = usage.to_json(generation, app.config.block_size as usize);
    let body = match generation.api {
        Api::Chat => chat_body(generation, &choices, usage),
        Api::Completion => completion_body(generation, &choices, usage),
    };
    Ok(Json(body).into_response())
}

async fn collect(app: &App, mut ticket: Ticket, usage: &mut Usage) -> Result<Choice, ApiError> {
    let mut tokens = Vec::new();
    while let Some(output) = ticket.next().await {
        usage.count(&output);
        tokens.push(output.token);
        if let Some(finish) = output.finish {
            let text = app.model.decode(&tokens)?;
            return Ok(Choice { tokens, text, finish });
        }
    }
    Err(ApiError::internal("EngineCore encountered an issue. See stack trace (above) for the root cause."))
}

fn chat_body(generation: &Generation, choices: &[Choice], usage: Value) -> Value {
    let choices: Vec<Value> = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            json!({
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": choice.text,
                    "refusal": null,
                    "annotations": null,
                    "audio": null,
                    "function_call": null,
                    "tool_calls": [],
                    "reasoning": null,
                },
                "logprobs": null,
                "finish_reason": choice.finish.as_str(),
                "stop_reason": null,
                "token_ids": generation.return_token_ids.then_some(&choice.tokens),
            })
        })
        .collect();
    json!({
        "id": generation.id,
        "object": "chat.completion",
        "created": unix_now(),
        "model": generation.model_name,
        "choices": choices,
        "service_tier": null,
        "system_fingerprint": null,
        "usage": usage,
        "prompt_logprobs": null,
        "prompt_token_ids": generation.return_token_ids.then(|| generation.prompts.first()),
        "kv_transfer_params": null,
    })
}

fn completion_body(generation: &Generation, choices: &[Choice], usage: Value) -> Value {
    let choices: Vec<Value> = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let prompt = generation.prompts.get(index / generation.n as usize);
            json!({
                "index": index,
                "text": choice.text,
                "logprobs": null,
                "finish_reason": choice.finish.as_str(),
                "stop_reason": null,
                "token_ids": generation.return_token_ids.then_some(&choice.tokens),
                "prompt_logprobs": null,
                "prompt_token_ids": generation.return_token_ids.then_some(prompt),
            })
        })
        .collect();
    json!({
        "id": generation.id,
        "object": "text_completion",
        "created": unix_now(),
        "model": generation.model_name,
        "choices": choices,
        "service_tier": null,
        "system_fingerprint": null,
        "usage": usage,
        "kv_transfer_params": null,
    })
}

/// Whole seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
