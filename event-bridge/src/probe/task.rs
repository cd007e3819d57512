//! The probe of one worker: health, then load, for as long as its handle lives.

use std::time::Duration;

use kv_routing::wire::Health;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::health::HealthTracker;
use super::http::WorkerClient;
use super::load::EngineLoad;
use crate::config::{EngineKind, ProbeConfig, WorkerAddress};

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
}

/// A running probe; dropping it ends it.
#[derive(Debug)]
pub struct ProbeHandle(AbortHandle);

impl Drop for ProbeHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts probing `address`, at once and then every interval, until the handle or the receiver is dropped.
pub fn spawn(
    member: MemberId,
    address: WorkerAddress,
    config: ProbeConfig,
    engine: EngineKind,
    tx: mpsc::Sender<ProbeReport>,
) -> ProbeHandle {
    let task = tokio::spawn(async move {
        let client = WorkerClient::new(address, config.timeout);
        let mut tracker = HealthTracker::new(config.unhealthy_after);
        loop {
            let report = probe(member, &client, &config, engine, &mut tracker).await;
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
    member: MemberId,
    client: &WorkerClient,
    config: &ProbeConfig,
    engine: EngineKind,
    tracker: &mut HealthTracker,
) -> ProbeReport {
    if let Err(error) = client.get(&config.health_path).await {
        let health = tracker.record(false);
        return ProbeReport { member, health, health_error: Some(error.to_string()), load: None };
    }
    let health = tracker.record(true);
    let load = match client.get(&config.metrics_path).await {
        Ok(body) => Ok(EngineLoad::parse(&String::from_utf8_lossy(&body), engine)),
        Err(error) => Err(error.to_string()),
    };
    ProbeReport { member, health, health_error: None, load: Some(load) }
}
