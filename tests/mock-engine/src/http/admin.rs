//! Everything that is not generation: models, health, version, metrics, cache reset, event sources.

use std::sync::{Arc, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::app::App;
use super::faults::HealthFault;
use crate::metrics::{self, RankMetrics, ServerFacts};
use crate::transfer::Role;

/// The version of vLLM whose behaviour and event layout this engine shows.
pub(super) const VLLM_VERSION: &str = "0.32.0";

pub(super) async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    let card = |id: &str, root: &str, parent: Option<&str>| {
        json!({
            "id": id,
            "object": "model",
            "created": app.started as u64,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": parent.is_none().then_some(app.max_model_len),
            "permission": [],
        })
    };
    let root = app.primary_name();
    let base = app.config.served_model_names.iter().map(|name| card(name, root, None));
    let adapters = app.config.adapters.iter().map(|adapter| card(&adapter.name, &adapter.path, Some(root)));
    Json(json!({"object": "list", "data": base.chain(adapters).collect::<Vec<Value>>()}))
}

pub(super) async fn health(State(app): State<Arc<App>>) -> StatusCode {
    match app.faults().health {
        HealthFault::None => StatusCode::OK,
        HealthFault::Fail => StatusCode::SERVICE_UNAVAILABLE,
        HealthFault::Hang => std::future::pending().await,
    }
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": VLLM_VERSION}))
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let ranks: Vec<RankMetrics> = app.ranks.iter().map(|rank| rank.metrics()).collect();
    let answered = app.answered.lock().unwrap_or_else(PoisonError::into_inner);
    let http_requests = answered
        .iter()
        .map(|((handler, method, status), count)| (handler.clone(), method.clone(), status.clone(), *count))
        .collect();
    drop(answered);
    let facts = ServerFacts {
        model_name: app.primary_name().to_owned(),
        started: app.started,
        block_size: app.config.block_size,
        num_blocks: app.config.num_blocks * app.config.data_parallel_size,
        max_model_len: app.max_model_len,
        http_requests,
        transfers: app.counts.named(),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::render(&facts, &ranks)).into_response()
}

/// Answers 200 whether or not the cache could be reset, as vLLM does; the log tells.
pub(super) async fn reset_prefix_cache(State(app): State<Arc<App>>) -> StatusCode {
    for (index, rank) in app.ranks.iter().enumerate() {
        if !rank.reset_cache().await {
            tracing::warn!(rank = index, "prefix cache not reset: blocks are in use");
        }
    }
    StatusCode::OK
}

pub(super) async fn kv_event_sources(State(app): State<Arc<App>>) -> Json<Value> {
    let mut sources = Map::new();
    for (index, rank) in app.ranks.iter().enumerate() {
        if let (Some(publisher), Some(events)) = (rank.publisher(), &app.config.events) {
            let source = json!({
                "enable_kv_cache_events": true,
                "publisher": "zmq",
                "endpoint": publisher.endpoint(),
                "replay_endpoint": publisher.replay_endpoint(),
                "buffer_steps": events.buffer_steps,
                "hwm": 100_000,
                "max_queue_size": 100_000,
                "topic": events.topic,
            });
            sources.insert(index.to_string(), source);
        }
    }
    Json(Value::Object(sources))
}

/// Event sockets as SGLang tells them: the ports of rank 0, to which others add their rank.
fn sglang_events(app: &App) -> Option<Value> {
    let publisher = app.ranks.first()?.publisher()?;
    let port = |endpoint: &str| endpoint.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    Some(json!({
        "publisher": "zmq",
        "endpoint_host": "*",
        "endpoint_port_base": port(publisher.endpoint()),
        "replay_endpoint_port_base": publisher.replay_endpoint().and_then(port),
        "topic": app.config.events.as_ref().map(|events| &events.topic),
        "block_size": app.config.block_size,
        "dp_size": app.ranks.len(),
    }))
}

/// What SGLang tells about itself: role and bootstrap port among it.
pub(super) async fn server_info(State(app): State<Arc<App>>) -> Json<Value> {
    let mode = match app.config.transfer.role {
        Role::Both => "null",
        Role::Prefill => "prefill",
        Role::Decode => "decode",
    };
    Json(json!({
        "served_model_name": app.primary_name(),
        "disaggregation_mode": mode,
        "disaggregation_bootstrap_port": app.side_address.map(|address| address.port()),
        "dp_size": app.ranks.len(),
        "page_size": app.config.block_size,
        "kv_events": sglang_events(&app),
        "max_total_num_tokens": u64::from(app.config.num_blocks - 1) * u64::from(app.config.block_size),
        "version": "0.5.23",
    }))
}
