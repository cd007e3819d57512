//! What the admin routes look at.

use std::num::NonZero;
use std::sync::Arc;

use kv_routing::wire::Epoch;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::policy::PolicyOffice;
use crate::pool::{PoolGone, PoolHandle, PoolSnapshot};
use crate::publish::{Catalog, Desired, EnvoyStatus};

/// Handles to everything. Clones share them.
#[derive(Clone, Debug)]
pub struct AdminState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pools: Vec<PoolHandle>,
    envoys: Vec<watch::Receiver<EnvoyStatus>>,
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
        metrics: Arc<Metrics>,
        policies: PolicyOffice,
        catalog: Catalog,
        epoch: Epoch,
    ) -> Self {
        let dumps = Arc::new(Semaphore::new(1));
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let tokenizing = Arc::new(Semaphore::new(cores));
        let started = Instant::now();
        Self(Arc::new(Inner { pools, envoys, metrics, policies, catalog, epoch, started, dumps, tokenizing }))
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

    pub(super) async fn snapshots(&self) -> Result<Vec<PoolSnapshot>, PoolGone> {
        let mut snapshots = Vec::with_capacity(self.0.pools.len());
        for pool in &self.0.pools {
            snapshots.push(pool.snapshot().await?);
        }
        Ok(snapshots)
    }
}
