//! Bounded HTTP requests to workers, and to a bridge's admin server, over kept connections.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;

/// Largest answer read.
const MAX_BODY_BYTES: usize = 8 << 20;

/// Why a worker did not answer a probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// No answer in time.
    #[error("no answer to {call} within {} ms", timeout.as_millis())]
    Timeout {
        /// Method and path.
        call: String,
        /// The limit.
        timeout: Duration,
    },
    /// No connection, or it broke.
    #[error("{call}: {reason}")]
    Connection {
        /// Method and path.
        call: String,
        /// What went wrong, causes included.
        reason: String,
    },
    /// An answer that is no success.
    #[error("{call} answered {status}")]
    Status {
        /// Method and path.
        call: String,
        /// The status.
        status: StatusCode,
    },
}

/// Client of one worker.
#[derive(Clone, Debug)]
pub struct WorkerClient {
    client: Client<HttpConnector, Full<Bytes>>,
    /// `host:port`.
    address: String,
    timeout: Duration,
}

impl WorkerClient {
    /// A client of `address`, `host:port`, that waits at most `timeout` for a whole answer.
    pub fn new(address: &impl Display, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(timeout));
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector);
        Self { client, address: address.to_string(), timeout }
    }

    /// Its limit.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Body of a successful `GET path`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn get(&self, path: &str) -> Result<Bytes, ProbeError> {
        let (status, body) = self.send(Method::GET, path, &[], Bytes::new()).await?;
        if status.is_success() { Ok(body) } else { Err(ProbeError::Status { call: format!("GET {path}"), status }) }
    }

    /// Status and body of the answer to a request.
    ///
    /// # Errors
    /// [`ProbeError`] when there is no whole answer; any status is one.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ProbeError> {
        let call = format!("{method} {path}");
        let answer = tokio::time::timeout(self.timeout, self.fetch(method, path, headers, body)).await;
        match answer {
            Ok(answer) => answer.map_err(|reason| ProbeError::Connection { call, reason }),
            Err(_) => Err(ProbeError::Timeout { call, timeout: self.timeout }),
        }
    }

    async fn fetch(
        &self,
        method: Method,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES);
        Ok((status, body.collect().await.map_err(|error| chain(error.as_ref()))?.to_bytes()))
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
