//! Bounded HTTP GETs to workers, over kept connections.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;

use crate::config::WorkerAddress;

/// Largest answer read.
const MAX_BODY_BYTES: usize = 8 << 20;

/// Why a worker did not answer a probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// No answer in time.
    #[error("no answer to GET {path} within {} ms", timeout.as_millis())]
    Timeout {
        /// What was asked for.
        path: String,
        /// The limit.
        timeout: Duration,
    },
    /// No connection, or it broke.
    #[error("GET {path}: {reason}")]
    Connection {
        /// What was asked for.
        path: String,
        /// What went wrong, causes included.
        reason: String,
    },
    /// An answer that is no success.
    #[error("GET {path} answered {status}")]
    Status {
        /// What was asked for.
        path: String,
        /// The status.
        status: StatusCode,
    },
}

/// Client of one worker.
#[derive(Clone, Debug)]
pub struct WorkerClient {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: WorkerAddress,
    timeout: Duration,
}

impl WorkerClient {
    /// A client of `address` that waits at most `timeout` for a whole answer.
    pub fn new(address: WorkerAddress, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(timeout));
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector);
        Self { client, address, timeout }
    }

    /// Body of a successful `GET path`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn get(&self, path: &str) -> Result<Bytes, ProbeError> {
        match tokio::time::timeout(self.timeout, self.fetch(path)).await {
            Ok(answer) => answer,
            Err(_) => Err(ProbeError::Timeout { path: path.to_owned(), timeout: self.timeout }),
        }
    }

    async fn fetch(&self, path: &str) -> Result<Bytes, ProbeError> {
        let connection = |reason: String| ProbeError::Connection { path: path.to_owned(), reason };
        let uri = format!("http://{}{path}", self.address);
        let request = Request::get(uri).body(Empty::new()).map_err(|error| connection(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| connection(chain(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(ProbeError::Status { path: path.to_owned(), status });
        }
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES);
        Ok(body.collect().await.map_err(|error| connection(chain(error.as_ref())))?.to_bytes())
    }
}

/// An error with its causes, since hyper's own text says little.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
