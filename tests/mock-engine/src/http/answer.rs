//! Whole answers: waits for every choice and writes one JSON object.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::App;
use super::error::ApiError;
use super::generate::{Api, Generation};
use super::handoff::Choice;
use super::usage::Usage;
use crate::sched::FinishReason;
use crate::transfer::{HeldAnswer, PdProtocol, seal};

/// One finished choice.
struct Done {
    tokens: Vec<u32>,
    text: String,
    finish: FinishReason,
    held: Option<HeldAnswer>,
}

/// Runs a generation to its end and answers it.
pub(super) async fn whole(app: &App, generation: &Generation, choices: Vec<Choice>) -> Result<Response, ApiError> {
    let delay = app.faults().first_token_delay();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let mut usage = Usage::default();
    let mut done = Vec::new();
    for choice in choices {
        done.push(collect(app, choice, &mut usage).await?);
    }
    let usage = usage.to_json(generation, app.config.block_size as usize);
    let body = match generation.api {
        Api::Chat => chat_body(app, generation, &done, usage),
        Api::Completion => completion_body(app, generation, &done, usage),
    };
    Ok(Json(body).into_response())
}

async fn collect(app: &App, mut choice: Choice, usage: &mut Usage) -> Result<Done, ApiError> {
    let mut tokens = Vec::new();
    while let Some(output) = choice.next().await {
        usage.count(&output);
        tokens.push(output.token);
        if let Some(finish) = output.finish {
            let text = app.model.decode(&tokens)?;
            let held = choice.finish(&output).await?;
            return Ok(Done { tokens, text, finish, held });
        }
    }
    Err(ApiError::internal("EngineCore encountered an issue. See stack trace (above) for the root cause."))
}

fn chat_body(app: &App, generation: &Generation, done: &[Done], usage: Value) -> Value {
    let choices: Vec<Value> = done
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let mut written = json!({
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
            });
            add_disaggregated(app, &mut written, choice);
            written
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
        "prompt_token_ids": shows_prompt(app, generation, done).then(|| generation.prompts.first()),
        "kv_transfer_params": kv_transfer_params(app, generation, done),
    })
}

fn completion_body(app: &App, generation: &Generation, done: &[Done], usage: Value) -> Value {
    let choices: Vec<Value> = done
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let prompt = generation.prompts.get(index / generation.n as usize);
            let mut written = json!({
                "index": index,
                "text": choice.text,
                "logprobs": null,
                "finish_reason": choice.finish.as_str(),
                "stop_reason": null,
                "token_ids": generation.return_token_ids.then_some(&choice.tokens),
                "prompt_logprobs": null,
                "prompt_token_ids": shows_prompt(app, generation, done).then_some(prompt),
            });
            add_disaggregated(app, &mut written, choice);
            written
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
        "kv_transfer_params": kv_transfer_params(app, generation, done),
    })
}

/// Context engines of TensorRT-LLM always tell the prompt's ids: the generation engine is given them.
fn shows_prompt(app: &App, generation: &Generation, choices: &[Done]) -> bool {
    let context = app.config.transfer.protocol == PdProtocol::Trtllm && choices.iter().any(|done| done.held.is_some());
    generation.return_token_ids || context
}

/// What a NIXL decode engine needs to pull the blocks.
fn kv_transfer_params(app: &App, generation: &Generation, choices: &[Done]) -> Value {
    let held = choices.first().and_then(|done| done.held.as_ref());
    match (held, app.side_address, app.config.transfer.protocol) {
        (Some(held), Some(address), PdProtocol::Nixl) => json!({
            "do_remote_prefill": true,
            "do_remote_decode": false,
            "remote_block_ids": [held.block_ids],
            "remote_engine_id": held.engine_id,
            "remote_request_id": held.key,
            "remote_host": address.ip(),
            "remote_port": address.port(),
            "tp_size": 1,
            "remote_num_tokens": generation.prompts.first().map(Vec::len),
        }),
        _ => Value::Null,
    }
}

/// What a TensorRT-LLM generation engine needs.
fn add_disaggregated(app: &App, written: &mut Value, done: &Done) {
    if let (Some(held), Some(address), PdProtocol::Trtllm) =
        (&done.held, app.side_address, app.config.transfer.protocol)
    {
        written["disaggregated_params"] = json!({
            "request_type": "context_only",
            "first_gen_tokens": [held.first_token],
            "ctx_request_id": held.key.parse::<u64>().ok(),
            "encoded_opaque_state": seal(&address.to_string()),
            "draft_tokens": null,
            "disagg_request_id": held.number,
            "ctx_dp_rank": held.rank,
        });
    }
}

/// Whole seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
