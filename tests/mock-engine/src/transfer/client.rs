//! The decode side: fetching blocks from a prefill engine's side channel.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::store::Pull;

/// Longest text of a refusal that is read.
const REFUSAL_LIMIT: usize = 4_096;

/// Blocks that could not be fetched. The request that needs them fails.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No connection to the side channel.
    #[error("prefill engine {address} is not reachable: {source}")]
    Unreachable {
        /// Side channel.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("prefill engine {address} broke the transfer off: {reason}")]
    Broken {
        /// Side channel.
        address: String,
        /// Why.
        reason: String,
    },
    /// The prefill engine refused.
    #[error("prefill engine {address} refused: {reason}")]
    Refused {
        /// Side channel.
        address: String,
        /// Its words.
        reason: String,
    },
    /// Another engine listens there.
    #[error("prefill engine {address} is gone: {reason}")]
    Gone {
        /// Side channel.
        address: String,
        /// Words of its successor.
        reason: String,
    },
    /// No answer in time.
    #[error("prefill engine {address} did not answer in time")]
    TimedOut {
        /// Side channel.
        address: String,
    },
}

impl PullError {
    /// Whether the blocks are gone with the engine that held them, rather than asked for wrongly.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken { .. } | Self::Gone { .. })
    }
}

/// A fetch that is made even if the request that needs it is given up before, where the engine does so: vLLM's decode side tells the prefill
/// engine of requests that are aborted before they were scheduled, or while their blocks are on the way, so that these are freed, with the
/// NIXL connector and with Mooncake's.
pub(crate) struct Wanted {
    fetch: Option<(String, Pull, Duration)>,
    frees: bool,
}

impl Wanted {
    /// What `pull` names is to be fetched from `address`, within `limit`; `frees`: even if it is given up.
    pub(crate) fn new(address: &str, pull: Pull, limit: Duration, frees: bool) -> Self {
        Self { fetch: Some((address.to_owned(), pull, limit)), frees }
    }

    /// Fetches it.
    pub(crate) async fn fetch(mut self) -> Result<(), PullError> {
        match self.fetch.take() {
            Some((address, pull, limit)) if !self.frees => fetch(&address, &pull, limit).await,
            Some((address, pull, limit)) => {
                let task = tokio::spawn({
                    let address = address.clone();
                    async move { fetch(&address, &pull, limit).await }
                });
                task.await.unwrap_or_else(|error| Err(PullError::Broken { address, reason: error.to_string() }))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if let (Some((address, pull, limit)), Ok(runtime)) = (self.fetch.take(), tokio::runtime::Handle::try_current())
            && self.frees
        {
            runtime.spawn(async move {
                if let Err(error) = fetch(&address, &pull, limit).await {
                    tracing::warn!(key = pull.key, %error, "blocks of a request that was given up are not freed");
                }
            });
        }
    }
}

/// Fetches what `pull` names from `address`, within `limit`.
async fn fetch(address: &str, pull: &Pull, limit: Duration) -> Result<(), PullError> {
    match timeout(limit, exchange(address, pull)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(PullError::TimedOut { address: address.to_owned() }),
    }
}

async fn exchange(address: &str, pull: &Pull) -> Result<(), PullError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| PullError::Unreachable { address: address.to_owned(), source })?;
    let broken = |reason: String| PullError::Broken { address: address.to_owned(), reason };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.to_string()))?;
    let driver = tokio::spawn(connection);
    let body = serde_json::to_vec(pull).map_err(|error| broken(error.to_string()))?;
    let request = Request::post("/pull")
        .header(header::HOST, address)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| broken(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
    let status = answer.status();
    let text = Limited::new(answer.into_body(), REFUSAL_LIMIT)
        .collect()
        .await
        .map_err(|error| broken(error.to_string()))?
        .to_bytes();
    driver.abort();
    if status == StatusCode::OK {
        return Ok(());
    }
    let (address, reason) = (address.to_owned(), String::from_utf8_lossy(&text).into_owned());
    Err(match status {
        StatusCode::GONE => PullError::Gone { address, reason },
        _ => PullError::Refused { address, reason },
    })
}
