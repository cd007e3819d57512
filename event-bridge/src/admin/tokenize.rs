//! Prompts tokenized for filters whose core cannot, see [`kv_routing::wire::Tokenized`].
//!
//! `POST /v1/tokenize?path=/v1/chat/completions&block_size=16` with a request's body; the pool is named by header `x-kv-pool` when there are
//! several. 422 when the prompt cannot be tokenized, 404 when the pool's prompts are tokenized in the filter. Filters ask for bincode,
//! people get JSON.

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::openai::{Endpoint, parse};
use kv_routing::tokens::HashPlan;
use kv_routing::wire::{ADAPTER_HEADER, POOL_HEADER, TOKENIZED_TYPE, Tokenized};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::reply::{error, ok};
use super::state::AdminState;
use crate::clock;
use crate::pool::PoolHandle;
use crate::tokenizer::{BridgePrompt, BridgeTokenizer};

/// Longest body; filters hold no longer ones.
pub(super) const MAX_BODY_BYTES: usize = 32 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    path: String,
    block_size: u32,
}

type Refusal = (StatusCode, String);

pub(super) async fn tokenize(
    State(state): State<AdminState>,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let binary = headers.get(header::ACCEPT).is_some_and(|accept| accept == TOKENIZED_TYPE);
    match answer(&state, &options, &headers, body).await {
        Ok((_, tokenized)) if binary => match tokenized.encode() {
            Ok(bytes) => ([(header::CONTENT_TYPE, TOKENIZED_TYPE)], bytes).into_response(),
            Err(problem) => error(StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()).into_response(),
        },
        Ok((prompt, Tokenized { tokens, exact_tokens, chain })) => ok(json!({
            "prompt": prompt.text,
            "prompt_tokens": tokens,
            "exact_tokens": exact_tokens,
            "tokens": prompt.tokens.iter().map(|token| token.0).collect::<Vec<u32>>(),
            "blocks": chain.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))
        .into_response(),
        Err((status, why)) => error(status, why).into_response(),
    }
}

async fn answer(
    state: &AdminState,
    options: &Options,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<(BridgePrompt, Tokenized), Refusal> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let endpoint = Endpoint::of_path(&options.path)
        .ok_or_else(|| bad(format!("path: `{}` is no inference path the filter acts on", options.path)))?;
    let block_size = BlockSize::new(options.block_size)
        .ok_or_else(|| bad(format!("block_size: {} must be 1 to {}", options.block_size, BlockSize::MAX)))?;
    let stopping = |_| (StatusCode::SERVICE_UNAVAILABLE, "the bridge is shutting down".to_owned());
    let began = Instant::now();
    let pool = pool(state, headers)?;
    let tokenizer = pool.bridge_tokenizer().await.map_err(stopping)?;
    let tokenizer = tokenizer.ok_or_else(|| {
        (StatusCode::NOT_FOUND, "the pool's prompts are tokenized in the filter, or not yet".to_owned())
    })?;
    let adapter = text(headers, ADAPTER_HEADER).map(str::to_owned);
    // Waits here are cancelled when the filter gives up. A text that is being tokenized is finished, and holds its permit until then.
    let permit = state.tokenizing().acquire_owned().await.map_err(|closed| bad(closed.to_string()))?;
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        prompt(&tokenizer, endpoint, &body, block_size, adapter.as_deref())
    });
    let done = work.await.map_err(|failed| (StatusCode::INTERNAL_SERVER_ERROR, failed.to_string()))?;
    match &done {
        Ok(_) => state.metrics().tokenized(&pool.name, began.elapsed()),
        Err(_) => state.metrics().prompt_refused(&pool.name),
    }
    done
}

fn prompt(
    tokenizer: &BridgeTokenizer,
    endpoint: Endpoint,
    body: &[u8],
    block_size: BlockSize,
    adapter: Option<&str>,
) -> Result<(BridgePrompt, Tokenized), Refusal> {
    let request = parse(endpoint, body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let seed = HashSeed::new(adapter, request.cache_salt.as_deref());
    let prompt = tokenizer
        .tokenize(&request, clock::unix_millis())
        .map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    let tokenized = prompt.hashed(HashPlan { block_size, seed });
    Ok((prompt, tokenized))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
}

/// The pool that is named, or the only one.
fn pool<'a>(state: &'a AdminState, headers: &HeaderMap) -> Result<&'a PoolHandle, Refusal> {
    match (text(headers, POOL_HEADER), state.pools()) {
        (Some(name), pools) => pools
            .iter()
            .find(|pool| pool.name == name)
            .ok_or_else(|| (StatusCode::NOT_FOUND, format!("no pool is named `{name}`"))),
        (None, [only]) => Ok(only),
        (None, _) => Err((StatusCode::BAD_REQUEST, format!("there are several pools: name one in {POOL_HEADER}"))),
    }
}
