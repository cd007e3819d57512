//! One kept HTTP/1.1 connection to an ingest listener.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use kv_routing::wire::PushReply;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;

use super::error::PushError;
use crate::config::{EnvoyConfig, IngestEndpoint, PUSH_PATH};

/// Largest reply read: load rows of every VM and a bounded number of decisions.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Characters of an error answer that are shown.
const EXCERPT_CHARS: usize = 200;
/// Host header on a Unix socket, where there is no authority.
const UNIX_HOST: &str = "kv-ingest";

/// Names one connection; the next one has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Client of one Envoy's ingest listener. After any error it connects anew.
#[derive(Debug)]
pub(super) struct IngestClient {
    envoy: EnvoyConfig,
    timeout: Duration,
    connection: Option<Connection>,
    connects: u64,
}

impl IngestClient {
    pub(super) fn new(envoy: EnvoyConfig, timeout: Duration) -> Self {
        Self { envoy, timeout, connection: None, connects: 0 }
    }

    /// Sends one push and waits for its reply.
    ///
    /// # Errors
    /// [`PushError`]; whether the push was applied is then unknown.
    pub(super) async fn push(&mut self, body: Bytes) -> Result<(ConnectionId, PushReply), PushError> {
        // Taken out for the exchange, so that a failed or cancelled one leaves no half-used connection behind.
        let timeout = self.timeout;
        let kept = self.connection.take().filter(|connection| !connection.sender.is_closed());
        let exchange = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let reply = connection.exchange(body).await?;
            Ok::<_, PushError>((connection, reply))
        };
        let (connection, reply) = match tokio::time::timeout(timeout, exchange).await {
            Ok(result) => result?,
            Err(_) => return Err(PushError::Timeout(timeout)),
        };
        let id = connection.id;
        self.connection = Some(connection);
        Ok((id, reply))
    }

    async fn connect(&mut self) -> Result<Connection, PushError> {
        let authorization = self.authorization().await?;
        let (sender, driver, host) = match &self.envoy.endpoint {
            IngestEndpoint::Unix(path) => {
                let (sender, driver) = handshake(UnixStream::connect(path).await.map_err(PushError::Connect)?).await?;
                (sender, driver, HeaderValue::from_static(UNIX_HOST))
            }
            IngestEndpoint::Tcp { authority } => {
                let stream = TcpStream::connect(authority).await.map_err(PushError::Connect)?;
                stream.set_nodelay(true).map_err(PushError::Connect)?;
                let (sender, driver) = handshake(stream).await?;
                let host = HeaderValue::try_from(authority).unwrap_or(HeaderValue::from_static(UNIX_HOST));
                (sender, driver, host)
            }
        };
        self.connects += 1;
        Ok(Connection { id: ConnectionId(self.connects), sender, driver, host, authorization })
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, PushError> {
        let Some(path) = &self.envoy.secret_file else { return Ok(None) };
        let text = tokio::fs::read_to_string(path).await;
        let text = text.map_err(|source| PushError::Secret { path: path.clone(), source })?;
        let secret = text.trim();
        let value = HeaderValue::try_from(format!("Bearer {secret}")).ok().filter(|_| !secret.is_empty());
        let mut value = value.ok_or_else(|| PushError::SecretText(path.clone()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

async fn handshake(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(SendRequest<Full<Bytes>>, AbortHandle), PushError> {
    let (sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(PushError::Exchange)?;
    // Its error reaches the exchange through the sender.
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, driver.abort_handle()))
}

impl Connection {
    async fn exchange(&mut self, body: Bytes) -> Result<PushReply, PushError> {
        self.sender.ready().await.map_err(PushError::Exchange)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(PUSH_PATH);
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        read_reply(self.sender.send_request(request).await.map_err(PushError::Exchange)?).await
    }
}

async fn read_reply(response: Response<Incoming>) -> Result<PushReply, PushError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_REPLY_BYTES).collect().await;
    let body = body.map_err(|error| PushError::Body(error.to_string()))?.to_bytes();
    if status != StatusCode::OK {
        let excerpt = String::from_utf8_lossy(&body).chars().take(EXCERPT_CHARS).collect();
        return Err(PushError::Status { status, excerpt });
    }
    Ok(PushReply::decode(&body)?)
}
