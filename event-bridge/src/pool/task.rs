//! The loop of a pool.

use std::time::Duration;

use kv_routing::target::Slot;
use kv_routing::wire::{Epoch, PoolId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::message::PoolRequest;
use super::runners::Runners;
use super::state::{Checked, State};
use super::tokenizer::{self, Ready};
use super::warm::WarmFiles;
use crate::config::{PoolConfig, WarmStart};
use crate::discovery::{self, WorkersUpdate};
use crate::policy::ShadowTally;
use crate::probe::ProbeReport;
use crate::publish::{Catalog, EnvoyStatus, Wakes};
use crate::stream::StreamEvent;

/// Events taken from streams in one go, between two looks at other messages.
const EVENTS_AT_ONCE: usize = 64;
/// Events waiting for the pool; streams keep more in their own backlog.
const EVENT_QUEUE: usize = 1024;
const REPORT_QUEUE: usize = 256;
const WORKERS_QUEUE: usize = 4;
const CHECKS_QUEUE: usize = 1;
const TICK: Duration = Duration::from_millis(50);
/// Ingest is ticked every so many ticks.
const INGEST_TICKS: u64 = 10;

/// Everything a pool's task is started with.
#[derive(Debug)]
pub struct PoolTask {
    /// Number of the pool.
    pub id: PoolId,
    /// Its configuration.
    pub config: PoolConfig,
    /// Epoch of this process.
    pub epoch: Epoch,
    /// Where to say what Envoys should hold.
    pub catalog: Catalog,
    /// Alarms of publishers.
    pub wakes: Wakes,
    /// How pushing to each Envoy goes.
    pub envoys: Vec<watch::Receiver<EnvoyStatus>>,
    /// Where decisions that a shadow looked at are counted.
    pub tally: ShadowTally,
    /// Where state is kept across restarts.
    pub warm_start: Option<WarmStart>,
}

impl PoolTask {
    /// Follows the workers until `intake` is cancelled, and answers requests until nobody can ask any more.
    pub async fn run(self, requests: mpsc::Receiver<PoolRequest>, intake: CancellationToken) {
        let Self { id, config, epoch, catalog, wakes, envoys, tally, warm_start } = self;
        let (events_tx, events) = mpsc::channel(EVENT_QUEUE);
        let (reports_tx, reports) = mpsc::channel(REPORT_QUEUE);
        let (workers_tx, workers) = mpsc::channel(WORKERS_QUEUE);
        let (checked_tx, checked) = mpsc::channel(CHECKS_QUEUE);
        let source = config.workers.clone();
        let watching =
            tokio::spawn(discovery::watch(source, config.worker_defaults.clone(), config.limits, workers_tx));
        let tokenizer = config
            .model_dir
            .clone()
            .map(|dir| tokenizer::compile_in_background(dir, config.chat.clone(), config.cache_dir.clone()));
        let runners = Runners::new(config.probe.clone(), config.engine, events_tx, reports_tx);
        let warm = WarmFiles::new(warm_start, config.name.clone());
        let state = State::new(id, config, epoch, catalog, envoys, tally, (runners, warm, checked_tx));
        let inputs = Inputs { requests, events, reports, workers, tokenizer, checked };
        serve(state, inputs, wakes, intake).await;
        watching.abort();
    }
}

struct Inputs {
    requests: mpsc::Receiver<PoolRequest>,
    events: mpsc::Receiver<(Slot, StreamEvent)>,
    reports: mpsc::Receiver<ProbeReport>,
    workers: mpsc::Receiver<WorkersUpdate>,
    tokenizer: Option<oneshot::Receiver<Result<Ready, String>>>,
    checked: mpsc::Receiver<Checked>,
}

async fn serve(mut state: State, mut inputs: Inputs, wakes: Wakes, intake: CancellationToken) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut tick, mut stopped) = (0_u64, false);
    let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
    let mut saving = None;
    loop {
        tokio::select! {
            request = inputs.requests.recv() => match request {
                Some(request) => answer(&mut state, request),
                None => break,
            },
            count = inputs.events.recv_many(&mut batch, EVENTS_AT_ONCE), if !stopped => {
                if count > 0 {
                    state.on_events(&mut batch, Instant::now());
                    wakes.wake_all();
                }
            }
            Some(report) = inputs.reports.recv(), if !stopped => state.on_probe(report, Instant::now()),
            Some(update) = inputs.workers.recv(), if !stopped => {
                state.on_workers(update, Instant::now());
                wakes.wake_all();
            }
            Some(checked) = inputs.checked.recv(), if !stopped => state.on_checked(checked, Instant::now()),
            result = compiled(&mut inputs.tokenizer) => state.on_tokenizer(result, Instant::now()),
            _ = ticks.tick(), if !stopped => {
                tick += 1;
                if tick.is_multiple_of(INGEST_TICKS) {
                    state.tick_ingest(Instant::now());
                    wakes.wake_all();
                }
                state.on_tick(Instant::now());
            }
            () = intake.cancelled(), if !stopped => {
                stopped = true;
                saving = state.stop_following();
            }
        }
    }
    if let Some(saving) = saving {
        drop(saving.await);
    }
}

/// The compiled tokenizer, once; never again afterwards.
async fn compiled(pending: &mut Option<oneshot::Receiver<Result<Ready, String>>>) -> Result<Ready, String> {
    let Some(receiver) = pending else { return std::future::pending().await };
    let result = receiver.await.unwrap_or_else(|_| Err("the compiler ended without a result".to_owned()));
    *pending = None;
    result
}

/// An asker that has gone meanwhile needs no answer.
fn answer(state: &mut State, request: PoolRequest) {
    match request {
        PoolRequest::Pages { envoy, previous, max_bytes, reply } => {
            if let Some(batch) = state.take_pages(envoy, previous, max_bytes) {
                drop(reply.send(batch));
            }
        }
        PoolRequest::Decisions(decisions) => state.on_decisions(&decisions, Instant::now()),
        PoolRequest::Overlaps { chain, reply } => drop(reply.send(state.overlaps(&chain))),
        PoolRequest::Snapshot(reply) => drop(reply.send(state.snapshot())),
        PoolRequest::Dump(reply) => drop(reply.send(state.dump())),
        PoolRequest::Tokenizer(reply) => drop(reply.send(state.bridge_tokenizer())),
    }
}
