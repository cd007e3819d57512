//! Engines that buffer their events and hand them out over HTTP (TensorRT-LLM's `POST /kv_cache_events`). The answer
//! drains the buffer, so exactly one task may ask: one per endpoint, whatever ranks it gathers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kv_routing::target::Slot;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::{StreamEvent, StreamStats};
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
    targets: watch::Sender<PollTargets>,
    counts: Arc<Mutex<Counts>>,
    /// Aborted when dropped.
    _task: JoinSet<()>,
}

/// Targets that a poller feeds, by attention data-parallel rank.
pub type PollTargets = Vec<(Option<u32>, Slot)>;

impl PollHandle {
    /// Feeds these targets from the next answer on. No answer is lost by it, as one would be with a poller that is ended.
    pub fn set_targets(&self, targets: PollTargets) {
        self.targets.send_replace(targets);
    }

    /// Counters of one target: its events and, as every target of the engine has them, times that polling began to work or
    /// worked again (`connects`) and polls that failed (`connect_failures`).
    pub fn stats(&self, slot: Slot) -> StreamStats {
        let counts = lock(&self.counts);
        let received = counts.received.get(&slot).copied().unwrap_or(0);
        StreamStats { received, connects: counts.began, connect_failures: counts.failed, ..StreamStats::default() }
    }
}

/// What a poller counts.
#[derive(Debug, Default)]
struct Counts {
    received: HashMap<Slot, u64>,
    began: u64,
    failed: u64,
}

/// Nothing can leave the counts half changed, so a panic elsewhere does not matter.
fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to poll. Each event goes to the target of its attention data-parallel rank, as a live batch of its own whose
/// number is the event's; events without a rank go to the first target. Follow these targets with
/// [`SourceSpec::polled`](crate::ingest::SourceSpec::polled).
pub fn spawn_poll(targets: PollTargets, spec: PollSpec, tx: mpsc::Sender<(Slot, StreamEvent)>) -> PollHandle {
    let (targets, wanted) = watch::channel(targets);
    let counts = Arc::new(Mutex::default());
    let mut task = JoinSet::new();
    let counted = Arc::clone(&counts);
    task.spawn(async move {
        let poller = Poller {
            targets: Vec::new(),
            counts: counted,
            wanted,
            spec,
            tx,
            method: Method::POST,
            strangers: BTreeSet::new(),
            link: Link::default(),
        };
        // Ends when nobody listens any more.
        let _ = poller.run().await;
    });
    PollHandle { targets, counts, _task: task }
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

impl PollError {
    /// Whether the engine surely kept its events: it was never asked, or it refused the question.
    fn kept_events(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Connection(error) => error.is_connect(),
            Self::Status(status) => status.is_client_error(),
            Self::Body(_) | Self::Timeout(_) | Self::Events(_) => false,
        }
    }
}

/// What targets were told of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    connected: bool,
    /// That the engine could not be asked, since the last answer.
    unreached: bool,
    /// That an answer is lost, since the last one that arrived.
    answer_lost: bool,
}

struct Poller {
    targets: PollTargets,
    counts: Arc<Mutex<Counts>>,
    /// Who is to be fed.
    wanted: watch::Receiver<PollTargets>,
    link: Link,
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
        loop {
            self.take_targets().await?;
            match self.poll(&client).await {
                Ok(body) => {
                    self.answered().await?;
                    if self.hand_out(&body).await? > 0 {
                        continue;
                    }
                }
                Err(error) => {
                    self.failed(error.to_string(), error.kept_events()).await?;
                    sleep(Duration::from_millis(500)).await;
                }
            }
            sleep(self.spec.every).await;
        }
    }

    /// Takes over who is to be fed. All are told what some may know: one that was taken out and in again is not told from
    /// one that stayed.
    async fn take_targets(&mut self) -> Result<(), Gone> {
        if !self.targets.is_empty() && !self.wanted.has_changed().unwrap_or(false) {
            return Ok(());
        }
        self.targets = self.wanted.borrow_and_update().clone();
        lock(&self.counts).received.retain(|slot, _| self.targets.iter().any(|(_, known)| known == slot));
        if self.link.connected {
            self.tell_all(|| StreamEvent::Connected).await?;
        }
        Ok(())
    }

    async fn answered(&mut self) -> Result<(), Gone> {
        let before = std::mem::replace(&mut self.link, Link { connected: true, ..Link::default() });
        if !before.connected {
            lock(&self.counts).began += 1;
            info!(url = self.spec.url, "polling events");
            self.tell_all(|| StreamEvent::Connected).await?;
        }
        Ok(())
    }

    async fn failed(&mut self, reason: String, kept_events: bool) -> Result<(), Gone> {
        lock(&self.counts).failed += 1;
        if std::mem::take(&mut self.link.connected) {
            warn!(url = self.spec.url, reason, "polling events failed");
        } else {
            debug!(url = self.spec.url, reason, "polling events failed");
        }
        if kept_events {
            if !std::mem::replace(&mut self.link.unreached, true) {
                self.tell_all(|| StreamEvent::Disconnected { reason: reason.clone() }).await?;
            }
        } else if !std::mem::replace(&mut self.link.answer_lost, true) {
            self.tell_all(|| StreamEvent::AnswerLost { reason: reason.clone() }).await?;
        }
        Ok(())
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
                Err(error) => {
                    // Whose it was is as unknown as its number.
                    let reason = error.to_string();
                    self.tell_all(|| StreamEvent::Undecodable { reason: reason.clone() }).await?;
                    continue;
                }
            };
            if let Some(slot) = slot {
                *lock(&self.counts).received.entry(slot).or_default() += 1;
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
