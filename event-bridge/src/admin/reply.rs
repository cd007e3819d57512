//! Answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::pool::PoolGone;

/// A JSON answer.
pub(super) type Reply = (StatusCode, Json<Value>);

pub(super) fn ok(value: Value) -> Reply {
    (StatusCode::OK, Json(value))
}

/// An error with a text for people.
pub(super) fn error(status: StatusCode, message: impl Into<String>) -> Reply {
    (status, Json(json!({ "error": message.into() })))
}

impl IntoResponse for PoolGone {
    fn into_response(self) -> Response {
        error(StatusCode::SERVICE_UNAVAILABLE, "the bridge is shutting down").into_response()
    }
}
