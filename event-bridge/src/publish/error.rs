//! Why a push failed.

use std::path::PathBuf;
use std::time::Duration;

use hyper::StatusCode;
use kv_routing::wire::WireError;
use thiserror::Error;

/// Why a push failed; whether it was applied is unknown.
#[derive(Debug, Error)]
pub enum PushError {
    /// No connection to the ingest listener.
    #[error("cannot connect: {0}: is Envoy running, and is its ingest listener at this address?")]
    Connect(#[source] std::io::Error),
    /// The secret cannot be read.
    #[error("cannot read the secret in {}: {source}", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The secret cannot be sent.
    #[error("the secret in {} is empty or has characters that a header cannot carry", .0.display())]
    SecretText(PathBuf),
    /// The connection broke.
    #[error("connection broke: {}", chain(.0))]
    Exchange(#[source] hyper::Error),
    /// The reply is too long or was cut off.
    #[error("cannot read the reply: {0}")]
    Body(String),
    /// No reply in time.
    #[error("no reply within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The ingest listener refused.
    #[error("refused with {status}: {excerpt}{}", hint(*.status))]
    Status {
        /// HTTP status.
        status: StatusCode,
        /// Begin of the body.
        excerpt: String,
    },
    /// The reply is not what this build understands.
    #[error("reply: {0}")]
    Reply(#[from] WireError),
    /// The push cannot be encoded.
    #[error("push: {0}")]
    Encode(#[source] WireError),
}

impl PushError {
    /// Word used in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Secret { .. } | Self::SecretText(_) => "secret",
            Self::Exchange(_) | Self::Body(_) => "connection",
            Self::Timeout(_) => "timeout",
            Self::Status { .. } => "refused",
            Self::Reply(_) => "reply",
            Self::Encode(_) => "encode",
        }
    }

    /// Whether trying again soon is pointless: someone has to change something first.
    pub fn needs_operator(&self) -> bool {
        match self {
            Self::Secret { .. } | Self::SecretText(_) | Self::Reply(_) | Self::Encode(_) => true,
            Self::Status { status, .. } => status.is_client_error(),
            Self::Connect(_) | Self::Exchange(_) | Self::Body(_) | Self::Timeout(_) => false,
        }
    }
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": compare secret_file with the ingest listener's secret",
        StatusCode::NOT_FOUND => ": the listener at this address is not the filter in its ingest role",
        StatusCode::BAD_REQUEST => ": are filter and bridge of the same release?",
        StatusCode::PAYLOAD_TOO_LARGE => ": raise the ingest listener's buffer limit to 4 MiB",
        _ => "",
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
