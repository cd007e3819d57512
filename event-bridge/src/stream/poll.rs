//! Engines that buffer their events and hand them out over HTTP (TensorRT-LLM's `POST /kv_cache_events`). The answer
//! drains the buffer, so exactly one task may ask: one per endpoint, whatever ranks it gathers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kv_routing::target::Slot;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::StreamEvent;
use crate::engine::{polled_head, split_polled};

/// Where an engine hands out its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSpec {
    /// `http://host:port/kv_cache_events`.
    pub url: String,
    /// Pause after an answer without events; after one with events the next question follows at once.
    pub every: Duration,
    /// Longest wait for an answer. Some releases take two seconds when there is nothing to tell.
    pub timeout: Duration,
    /// Longest answer read.
    pub max_bytes: usize,
}

impl PollSpec {
    /// The usual pauses and bounds.
    pub fn new(url: impl Into<String>) -> Self {
        let (every, timeout) = (Duration::from_millis(20), Duration::from_secs(10));
        Self { url: url.into(), every, timeout, max_bytes: 256 << 20 }
    }
}

/// A running poller; dropping it ends it.
#[derive(Debug)]
pub struct PollHandle {
    /// Aborted when dropped.
    _task: JoinSet<()>,
}

/// Starts to poll. Each event goes to the target of its attention data-parallel rank, as a live batch of its own whose
/// number is the event's; events without a rank go to the first target. Follow these targets with
/// [`SourceSpec::polled`](crate::ingest::SourceSpec::polled).
pub fn spawn_poll(
    targets: Vec<(Option<u32>, Slot)>,
    spec: PollSpec,
    tx: mpsc::Sender<(Slot, StreamEvent)>,
) -> PollHandle {
    let mut task = JoinSet::new();
    task.spawn(async move {
        // Ends when nobody listens any more.
        let _ = Poller { targets, spec, tx, method: Method::POST, strangers: BTreeSet::new() }.run().await;
    });
    PollHandle { _task: task }
}

#[derive(Debug, Error)]
enum PollError {
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
    #[error("{0}")]
    Connection(#[from] hyper_util::client::legacy::Error),
    #[error("{0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Events(#[from] crate::engine::PolledError),
}

struct Poller {
    targets: Vec<(Option<u32>, Slot)>,
    spec: PollSpec,
    tx: mpsc::Sender<(Slot, StreamEvent)>,
    /// POST in every release read; some front ends have GET.
    method: Method,
    /// Ranks without a target, once they were told of.
    strangers: BTreeSet<u32>,
}

/// Nobody listens any more.
struct Gone;

impl Poller {
    async fn run(mut self) -> Result<(), Gone> {
        let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let mut connected = false;
        loop {
            match self.poll(&client).await {
                Ok(body) => {
                    if !std::mem::replace(&mut connected, true) {
                        info!(url = self.spec.url, "polling events");
                        self.tell_all(|| StreamEvent::Connected).await?;
                    }
                    if self.hand_out(&body).await? > 0 {
                        continue;
                    }
                }
                Err(error) => {
                    let reason = error.to_string();
                    if std::mem::take(&mut connected) {
                        warn!(url = self.spec.url, reason, "polling events failed");
                        self.tell_all(|| StreamEvent::Disconnected { reason: reason.clone() }).await?;
                    } else {
                        debug!(url = self.spec.url, reason, "polling events failed");
                    }
                    sleep(Duration::from_millis(500)).await;
                }
            }
            sleep(self.spec.every).await;
        }
    }

    async fn poll(&mut self, client: &Client<HttpConnector, Empty<Bytes>>) -> Result<Bytes, PollError> {
        let limit = self.spec.timeout;
        match timeout(limit, self.ask(client)).await.map_err(|_| PollError::Timeout(limit))? {
            Err(PollError::Status(StatusCode::METHOD_NOT_ALLOWED)) if self.method == Method::POST => {
                self.method = Method::GET;
                timeout(limit, self.ask(client)).await.map_err(|_| PollError::Timeout(limit))?
            }
            answer => answer,
        }
    }

    async fn ask(&self, client: &Client<HttpConnector, Empty<Bytes>>) -> Result<Bytes, PollError> {
        let request = Request::builder().method(self.method.clone()).uri(&self.spec.url).body(Empty::new())?;
        let response = client.request(request).await?;
        if !response.status().is_success() {
            return Err(PollError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), self.spec.max_bytes).collect().await;
        let body = body.map_err(PollError::Body)?.to_bytes();
        split_polled(&body)?;
        Ok(body)
    }

    /// Hands out the events of a body that is known to be an array; returns how many there were.
    async fn hand_out(&mut self, body: &Bytes) -> Result<usize, Gone> {
        let events = split_polled(body).unwrap_or_default();
        let received = Instant::now();
        for text in &events {
            let (slot, event) = match polled_head(text) {
                Ok((seq, rank)) => {
                    let payload = body.slice_ref(text.as_bytes());
                    let target = self.target(rank);
                    if let (None, Some(rank)) = (target, rank)
                        && self.strangers.insert(rank)
                    {
                        warn!(
                            url = self.spec.url,
                            rank, "events of a rank that is not configured are left out: set `ranks`"
                        );
                    }
                    (target, StreamEvent::Live { seq, payload, received })
                }
                Err(error) => (self.target(None), StreamEvent::Undecodable { reason: error.to_string() }),
            };
            if let Some(slot) = slot {
                self.tell(slot, event).await?;
            }
        }
        Ok(events.len())
    }

    fn target(&self, rank: Option<u32>) -> Option<Slot> {
        let exact = self.targets.iter().find(|(of, _)| *of == rank);
        // An engine with a single rank may or may not number it.
        let only = self.targets.first().filter(|(of, _)| rank.is_none() || (rank == Some(0) && of.is_none()));
        exact.or(only).map(|(_, slot)| *slot)
    }

    async fn tell_all(&self, event: impl Fn() -> StreamEvent) -> Result<(), Gone> {
        for (_, slot) in &self.targets {
            self.tell(*slot, event()).await?;
        }
        Ok(())
    }

    async fn tell(&self, slot: Slot, event: StreamEvent) -> Result<(), Gone> {
        self.tx.send((slot, event)).await.map_err(|_| Gone)
    }
}
