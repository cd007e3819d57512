//! The probe of one worker: health, then load, for as long as its handle lives.

use std::time::Duration;

use kv_routing::wire::Health;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::handoff::{EngineHandoff, HandoffProbe, Question};
use super::health::HealthTracker;
use super::http::WorkerClient;
use super::load::EngineLoad;
use super::sources::SourceQuestion;
use crate::config::{EngineKind, ProbeConfig, WorkerAddress};
use crate::engine::EventSource;

/// A probe that contradicts the last one is repeated after this part of the interval.
const DOUBT_DIVISOR: u32 = 5;

/// Names one stay of a worker in a pool, so that late reports about an earlier stay are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

/// What a probe found.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeReport {
    /// Whom.
    pub member: MemberId,
    /// Health after this probe.
    pub health: Health,
    /// Why the health probe failed, when it did.
    pub health_error: Option<String>,
    /// Load, or why there is none; `None` when the worker did not answer the health probe.
    pub load: Option<Result<EngineLoad, String>>,
    /// Where it publishes, or why that is not known; `None` when it was not asked this time.
    pub sources: Option<Result<Vec<EventSource>, String>>,
    /// What the engine says of disaggregated serving, or why it does not; `None` when it was not asked.
    pub handoff: Option<Result<EngineHandoff, String>>,
}

/// Whom to probe, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its stay in the pool.
    pub member: MemberId,
    /// Its address.
    pub address: WorkerAddress,
    /// What it is.
    pub engine: EngineKind,
    /// Whether to ask where it publishes its events.
    pub ask_sources: bool,
}

/// A running probe; dropping it ends it.
#[derive(Debug)]
pub struct ProbeHandle(AbortHandle);

impl Drop for ProbeHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts probing, at once and then every interval, until the handle or the receiver is dropped. `handoff` says what to ask
/// about disaggregated serving.
pub fn spawn(
    subject: Subject,
    handoff: Option<HandoffProbe>,
    config: ProbeConfig,
    tx: mpsc::Sender<ProbeReport>,
) -> ProbeHandle {
    let task = tokio::spawn(async move {
        let Subject { address, engine, ask_sources, .. } = subject;
        let client = WorkerClient::new(&address, config.timeout);
        let mut handoff = handoff.map(Question::new);
        let mut tracker = HealthTracker::new(config.unhealthy_after);
        let mut question = ask_sources.then(|| SourceQuestion::new(engine, address.socket().ip().to_string()));
        loop {
            let mut report = probe(subject, &client, &config, &mut tracker).await;
            if let Some(question) = &mut handoff {
                if report.health_error.is_some() {
                    question.doubt();
                } else {
                    report.handoff = question.ask(&client).await;
                }
            }
            if let Some(question) = &mut question {
                if report.health_error.is_some() {
                    question.doubt();
                } else {
                    report.sources = question.ask(&client).await;
                }
            }
            if tx.send(report).await.is_err() {
                return;
            }
            tokio::time::sleep(pause(&config, &tracker)).await;
        }
    });
    ProbeHandle(task.abort_handle())
}

fn pause(config: &ProbeConfig, tracker: &HealthTracker) -> Duration {
    if tracker.in_doubt() { config.interval / DOUBT_DIVISOR } else { config.interval }
}

async fn probe(
    Subject { member, engine, .. }: Subject,
    client: &WorkerClient,
    config: &ProbeConfig,
    tracker: &mut HealthTracker,
) -> ProbeReport {
    if let Err(error) = client.get(&config.health_path).await {
        let health = tracker.record(false);
        let health_error = Some(error.to_string());
        return ProbeReport { member, health, health_error, load: None, sources: None, handoff: None };
    }
    let health = tracker.record(true);
    let load = match client.get(&config.metrics_path).await {
        Ok(body) => Ok(EngineLoad::parse(&String::from_utf8_lossy(&body), engine)),
        Err(error) => Err(error.to_string()),
    };
    ProbeReport { member, health, health_error: None, load: Some(load), sources: None, handoff: None }
}
