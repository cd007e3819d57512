//! Errors in vLLM's JSON: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::model::{ChatError, EncodeError};

/// An error answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<&'static str>,
}

impl ApiError {
    /// The client's fault.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param: None }
    }

    /// The client's fault, in one named field.
    pub(super) fn bad_field(param: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param: Some(param) }
    }

    /// A model that is not served here.
    pub(super) fn unknown_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist.");
        Self { status: StatusCode::NOT_FOUND, message, param: Some("model") }
    }

    /// The engine's fault.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::status(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Any status.
    pub(super) fn status(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None }
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ => "InternalServerError",
        }
    }
}

impl From<ChatError> for ApiError {
    fn from(error: ChatError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<EncodeError> for ApiError {
    fn from(error: EncodeError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.status.as_u16(),
        }});
        (self.status, Json(body)).into_response()
    }
}
