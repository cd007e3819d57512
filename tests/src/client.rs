//! HTTP client with what the tests look at: time to first byte, raw header bytes, trailers, broken streams.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use thiserror::Error;

/// A request body.
pub type Body = BoxBody<Bytes, Infallible>;

/// Keeps connections alive; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client(Pooled<HttpConnector, Body>);

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, all of it.
    pub body: Bytes,
    /// From sending to the first byte of the body.
    pub first_byte: Duration,
    /// From sending to the end.
    pub total: Duration,
}

/// Why there is no whole answer.
#[derive(Debug, Error)]
pub enum Failure {
    /// Not even headers came.
    #[error("no answer: {0:?}")]
    NoAnswer(hyper_util::client::legacy::Error),
    /// The answer broke off.
    #[error("broken after {bytes} bytes of the answer: {error}")]
    Broken {
        /// Bytes of the body that came.
        bytes: usize,
        /// What broke.
        error: hyper::Error,
    },
}

impl Client {
    /// A client with no connections yet.
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Pooled::builder(TokioExecutor::new()).build(connector))
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When the connection fails, or breaks before the end of the answer. Any status is an answer.
    pub async fn send(&self, request: Request<Body>) -> Result<Reply, Failure> {
        let start = Instant::now();
        let response = self.0.request(request).await.map_err(Failure::NoAnswer)?;
        let (head, mut stream) = response.into_parts();
        let mut body = Vec::new();
        let mut first_byte = None;
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(|error| Failure::Broken { bytes: body.len(), error })?;
            if let Ok(data) = frame.into_data() {
                first_byte.get_or_insert_with(|| start.elapsed());
                body.extend_from_slice(&data);
            }
        }
        let total = start.elapsed();
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body: body.into(),
            first_byte: first_byte.unwrap_or(total),
            total,
        })
    }

    /// Sends a request and returns when the answer begins. The answer goes on until it is dropped, which breaks it off.
    ///
    /// # Errors
    /// When the connection fails before that.
    pub async fn open(&self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        self.0.request(request).await.map_err(Failure::NoAnswer)
    }

    /// GETs `url`.
    ///
    /// # Errors
    /// See [`Client::send`].
    pub async fn get(&self, url: &str) -> Result<Reply, Failure> {
        self.send(Request::get(url).body(full("")).expect("URL")).await
    }

    /// POSTs a JSON document.
    ///
    /// # Errors
    /// See [`Client::send`].
    pub async fn post(&self, url: &str, document: &Value) -> Result<Reply, Failure> {
        self.send(json(url, document)).await
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails the test unless the status is 200.
    pub fn expect_ok(self) -> Self {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text());
        self
    }
}

/// A POST of a JSON document, for tests that add headers to it.
pub fn json(url: &str, document: &Value) -> Request<Body> {
    post(url, document.to_string())
}

/// A POST of JSON that is written already.
pub fn post(url: &str, json: impl Into<Bytes>) -> Request<Body> {
    Request::post(url).header(CONTENT_TYPE, "application/json").body(full(json)).expect("URL")
}

/// A body of known length.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed()
}
