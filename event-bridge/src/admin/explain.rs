//! What the filter would do with a request now.
//!
//! `POST /explain` with the request's body and headers; `?path=` is the path it would be sent to (chat completions without),
//! `?envoy=NAME` the Envoy whose bookings count (the first one without), `?seed=N` decides between equals.

use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use kv_routing::openai::Endpoint;
use serde::Deserialize;
use serde_json::json;

use super::reply::{Reply, error, ok};
use super::state::AdminState;
use crate::clock;
use crate::explain::{Asked, OverlapsOf, Question};
use crate::pool::PoolGone;
use crate::publish::EnvoyIndex;

/// Largest body read; as much as Envoy holds in the configurations of this project.
pub(super) const MAX_BODY_BYTES: usize = 32 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    path: Option<String>,
    envoy: Option<String>,
    seed: Option<u64>,
}

pub(super) async fn explain(
    State(state): State<AdminState>,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Reply, PoolGone> {
    let path = options.path.as_deref().unwrap_or(Endpoint::ChatCompletions.path());
    let Some(endpoint) = Endpoint::of_path(path) else {
        return Ok(error(StatusCode::BAD_REQUEST, format!("{path} is no inference path: the filter lets it pass")));
    };
    let envoy = match &options.envoy {
        None => EnvoyIndex(0),
        Some(name) => match state.envoys().iter().position(|envoy| envoy.name == *name) {
            None => return Ok(error(StatusCode::BAD_REQUEST, format!("no Envoy is called `{name}`"))),
            Some(at) => EnvoyIndex(at),
        },
    };
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let now = clock::unix_millis();
    let question = Question { endpoint, headers, body, now };
    let (desired, rules) = (state.desired(), state.policies().read(|desk| desk.document()).unwrap_or_default().live);
    let read = tokio::task::spawn_blocking(move || Asked::read(&question, &desired, &rules)).await;
    let asked = match read {
        Ok(Ok(asked)) => asked,
        Ok(Err(why)) => return Ok(error(StatusCode::UNPROCESSABLE_ENTITY, why.to_string())),
        Err(failed) => return Ok(error(StatusCode::INTERNAL_SERVER_ERROR, failed.to_string())),
    };
    let Some(pool) = state.pools().get(usize::from(asked.pool().0)) else { return Err(PoolGone) };
    // As it is when the decision is made, not as it was at the last heartbeat.
    let rows = state.fresh_envoy(envoy).await.map(|envoy| envoy.load_rows).unwrap_or_default();
    let began = Instant::now();
    let overlaps = pool.overlaps(asked.chain().to_vec()).await?;
    let took_us = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
    Ok(ok(json!(asked.decide(&OverlapsOf { overlaps, took_us }, &rows, options.seed.unwrap_or(now.0)))))
}
