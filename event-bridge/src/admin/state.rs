//! What the admin routes look at.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use kv_routing::wire::Epoch;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use crate::policy::PolicyOffice;
use crate::pool::{PoolGone, PoolHandle, PoolSnapshot};
use crate::publish::{Catalog, Desired, EnvoyIndex, EnvoyStatus, Wakes};

/// Longest wait for an Envoy to say how it is now.
const ASK_LIMIT: Duration = Duration::from_millis(250);

/// Handles to everything. Clones share them.
#[derive(Clone, Debug)]
pub struct AdminState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pools: Vec<PoolHandle>,
    envoys: Vec<watch::Receiver<EnvoyStatus>>,
    wakes: Wakes,
    metrics: Arc<Metrics>,
    policies: PolicyOffice,
    catalog: Catalog,
    epoch: Epoch,
    started: Instant,
    /// A dump holds a copy of a whole index, so there is one at a time.
    dumps: Arc<Semaphore>,
    /// As many prompts are tokenized at once as there are cores.
    tokenizing: Arc<Semaphore>,
}

impl AdminState {
    /// State of a bridge that starts now.
    pub fn new(
        pools: Vec<PoolHandle>,
        envoys: Vec<watch::Receiver<EnvoyStatus>>,
        wakes: Wakes,
        metrics: Arc<Metrics>,
        policies: PolicyOffice,
        catalog: Catalog,
        epoch: Epoch,
    ) -> Self {
        let dumps = Arc::new(Semaphore::new(1));
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let tokenizing = Arc::new(Semaphore::new(cores));
        let started = Instant::now();
        Self(Arc::new(Inner { pools, envoys, wakes, metrics, policies, catalog, epoch, started, dumps, tokenizing }))
    }

    pub(super) fn pools(&self) -> &[PoolHandle] {
        &self.0.pools
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(super) fn policies(&self) -> &PolicyOffice {
        &self.0.policies
    }

    /// What Envoys should hold.
    pub(super) fn desired(&self) -> Desired {
        self.0.catalog.desired()
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    pub(super) fn started(&self) -> Instant {
        self.0.started
    }

    pub(super) fn dumps(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.dumps)
    }

    pub(super) fn tokenizing(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.tokenizing)
    }

    pub(super) fn envoys(&self) -> Vec<EnvoyStatus> {
        self.0.envoys.iter().map(|envoy| envoy.borrow().clone()).collect()
    }

    /// One Envoy as it is now; as it was last when it does not answer soon.
    pub(super) async fn fresh_envoy(&self, envoy: EnvoyIndex) -> Option<EnvoyStatus> {
        let mut status = self.0.envoys.get(envoy.0)?.clone();
        let now = Instant::now();
        self.0.wakes.ask(envoy);
        let is_fresh = |status: &EnvoyStatus| status.rows_as_of.is_some_and(|as_of| as_of >= now);
        let _late = timeout(ASK_LIMIT, status.wait_for(is_fresh)).await.is_err();
        Some(status.borrow().clone())
    }

    pub(super) async fn snapshots(&self) -> Result<Vec<PoolSnapshot>, PoolGone> {
        let mut snapshots = Vec::with_capacity(self.0.pools.len());
        for pool in &self.0.pools {
            snapshots.push(pool.snapshot().await?);
        }
        Ok(snapshots)
    }
}
