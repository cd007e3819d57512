//! The `/mock` routes: faults for tests, and a look inside.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::app::App;
use super::error::ApiError;
use crate::events::EventFaults;

/// Every fault of an engine. `POST /mock/faults` replaces the whole document; absent fields are off.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// What `GET /health` does.
    pub health: HealthFault,
    /// What happens to the next generation requests.
    pub requests: RequestFault,
    /// Every first token comes this many milliseconds later.
    pub first_token_delay_ms: u64,
    /// Refuse this many fetches of held blocks; counts down.
    pub refuse_pulls: u64,
    /// The engine stands still: requests queue up and nothing answers.
    pub hang: bool,
    /// Events of all ranks.
    pub events: EventFaults,
}

impl Faults {
    pub(super) fn first_token_delay(&self) -> Duration {
        Duration::from_millis(self.first_token_delay_ms)
    }
}

/// What `GET /health` does.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthFault {
    /// Answers 200.
    #[default]
    None,
    /// Answers 503.
    Fail,
    /// Never answers.
    Hang,
}

/// A fault of the next `count` generation requests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestFault {
    /// How many requests are hit; counts down.
    pub count: u64,
    /// What happens to them.
    pub kind: RequestFaultKind,
    /// Status of [`RequestFaultKind::Status`]; 500 when 0.
    pub status: u16,
    /// Tokens sent before [`RequestFaultKind::BreakStream`] cuts the connection.
    pub after_tokens: u32,
}

/// How a generation request fails.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestFaultKind {
    /// An error answer.
    #[default]
    Status,
    /// The connection closes without an answer.
    CloseBeforeHeaders,
    /// A streamed answer breaks off after `after_tokens` tokens (0: after the headers). Whole answers are not hit.
    BreakStream,
    /// Nothing is ever answered.
    Hang,
}

/// Marks an answer that must never be sent: the server closes the connection instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseConnection;

impl App {
    /// Puts faults in force.
    pub fn set_faults(&self, faults: Faults) {
        for rank in &self.ranks {
            rank.set_hung(faults.hang);
            if let Some(publisher) = rank.publisher() {
                publisher.set_faults(faults.events.clone());
            }
        }
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Counts down the request fault, if it is of a kind that `hits` accepts.
    fn take_request_fault(&self, hits: impl Fn(RequestFaultKind) -> bool) -> Option<RequestFault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = faults.requests;
        if fault.count == 0 || !hits(fault.kind) {
            return None;
        }
        faults.requests.count -= 1;
        Some(fault)
    }

    /// Counts down the pull fault.
    pub(crate) fn take_pull_fault(&self) -> bool {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let due = faults.refuse_pulls > 0;
        faults.refuse_pulls = faults.refuse_pulls.saturating_sub(1);
        due
    }

    /// The number of tokens after which the stream that starts now breaks, if it does.
    pub(super) fn take_stream_break(&self) -> Option<u32> {
        self.take_request_fault(|kind| kind == RequestFaultKind::BreakStream).map(|fault| fault.after_tokens)
    }
}

/// Fails generation requests that a fault hits before they reach their handler.
pub(super) async fn fail_requests(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(fault) = app.take_request_fault(|kind| kind != RequestFaultKind::BreakStream) else {
        return next.run(request).await;
    };
    match fault.kind {
        RequestFaultKind::Hang => std::future::pending().await,
        RequestFaultKind::CloseBeforeHeaders => {
            let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
            response.extensions_mut().insert(CloseConnection);
            response
        }
        RequestFaultKind::Status | RequestFaultKind::BreakStream => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            ApiError::status(status, "failed on purpose").into_response()
        }
    }
}

pub(super) async fn get(State(app): State<Arc<App>>) -> Json<Faults> {
    let mut faults = app.faults();
    if let Some(publisher) = app.ranks.first().and_then(|rank| rank.publisher()) {
        faults.events = publisher.faults();
    }
    Json(faults)
}

pub(super) async fn set(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Faults>, ApiError> {
    let faults: Faults =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(format!("faults: {error}")))?;
    app.set_faults(faults.clone());
    Ok(Json(faults))
}

/// Starts the event streams over, as a restarted process would, with the cache kept.
pub(super) async fn restart_events(State(app): State<Arc<App>>) -> StatusCode {
    app.ranks.iter().filter_map(|rank| rank.publisher()).for_each(|publisher| publisher.restart());
    StatusCode::OK
}

/// Ends the engine at once: every connection breaks.
pub(super) async fn crash(State(app): State<Arc<App>>) -> StatusCode {
    app.crash.send_replace(true);
    StatusCode::OK
}

/// What each rank holds: load and every cached block, by the id its events carry.
pub(super) async fn state(State(app): State<Arc<App>>) -> Json<Value> {
    let mut ranks = Vec::new();
    for rank in &app.ranks {
        let metrics = rank.metrics();
        let mut blocks: Vec<(u64, usize)> =
            rank.cached_contents().await.iter().map(|(hash, copies)| (hash.event_id(), *copies)).collect();
        blocks.sort_unstable();
        ranks.push(json!({
            "running": metrics.running,
            "waiting": metrics.waiting,
            "kv_usage": metrics.kv_usage,
            "held_requests": metrics.held_requests,
            "held_blocks": metrics.held_blocks,
            "cached_blocks": blocks,
        }));
    }
    Json(json!({"ranks": ranks}))
}
