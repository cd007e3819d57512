//! The side channel of a prefill engine: `POST /pull` hands blocks over, `GET /query` names the engine's ranks.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::PdProtocol;
use super::store::{Pull, PullRefusal};
use crate::http::App;

/// Routes of the side channel.
pub fn side_router(app: Arc<App>) -> Router {
    Router::new().route("/pull", post(pull)).route("/query", get(query)).with_state(app)
}

/// Hands the blocks over once, and frees them.
async fn pull(State(app): State<Arc<App>>, Json(pull): Json<Pull>) -> Response {
    let outcome = match app.take_pull_fault() {
        true => Err(PullRefusal::Unknown(pull.key.clone())),
        false => hand_over(&app, &pull).await,
    };
    match outcome {
        Ok(()) => Json(json!({})).into_response(),
        Err(refusal) => {
            app.count_refused_pull();
            tracing::warn!(key = pull.key, %refusal, "pull refused");
            // Whoever asks for another engine asks for one that is gone.
            let status = if refusal == PullRefusal::OTHER_ENGINE { StatusCode::GONE } else { StatusCode::CONFLICT };
            (status, refusal.to_string()).into_response()
        }
    }
}

async fn hand_over(app: &App, pull: &Pull) -> Result<(), PullRefusal> {
    let held = app.transfers.find(pull).await?;
    let rank = app.ranks.get(held.rank);
    let released = match rank {
        Some(rank) => rank.release_held(held.request).await,
        None => false,
    };
    app.transfers.forget(&pull.key);
    if !released {
        return Err(PullRefusal::Unknown(pull.key.clone()));
    }
    app.count_pull();
    Ok(())
}

/// As Mooncake's bootstrap server: engine id by data-parallel rank. Other engines have no such path.
async fn query(State(app): State<Arc<App>>) -> Response {
    if app.config.transfer.protocol != PdProtocol::Mooncake {
        return StatusCode::NOT_FOUND.into_response();
    }
    let ranks: Map<String, Value> =
        (0..app.ranks.len()).map(|rank| (rank.to_string(), json!({"engine_id": app.engine_id(rank)}))).collect();
    Json(Value::Object(ranks)).into_response()
}
