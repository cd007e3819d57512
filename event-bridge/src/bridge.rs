//! A running bridge: every task, in the order in which they start and stop.
//!
//! Start: admin socket, pools, publishers. Stop: workers are followed no longer, publishers push what is left, pools
//! end with the last handle to them, admin last. What Envoys and endpoint files hold then stays as it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kv_routing::wire::{Epoch, PoolId};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::admin::{self, AdminState};
use crate::clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::policy::{PolicyOffice, ShadowTally, Surroundings};
use crate::pool::{PoolHandle, PoolTask};
use crate::publish::{Catalog, EnvoyIndex, EnvoyStatus, Publisher, Wakes};

/// Tasks that have not ended by then are left behind.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Why the bridge cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The admin address cannot be listened on.
    #[error("cannot listen on admin.listen {address}: {source}: is another bridge running?")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A running bridge.
#[derive(Debug)]
pub struct Bridge {
    admin_address: SocketAddr,
    epoch: Epoch,
    intake: CancellationToken,
    publishing: CancellationToken,
    serving: CancellationToken,
    publishers: TaskTracker,
    pools: TaskTracker,
    admin: TaskTracker,
}

impl Bridge {
    /// Starts everything and returns when the admin server listens.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let address = config.admin.listen;
        let failed = |source| StartError::Admin { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let admin_address = listener.local_addr().map_err(failed)?;
        let bridge = Self {
            admin_address,
            // Grows with every start: of two bridges that serve one Envoy the younger one wins.
            epoch: Epoch(clock::unix_millis().0),
            intake: CancellationToken::new(),
            publishing: CancellationToken::new(),
            serving: CancellationToken::new(),
            publishers: TaskTracker::new(),
            pools: TaskTracker::new(),
            admin: TaskTracker::new(),
        };
        let state = bridge.start_pools(config);
        let router = admin::router(state);
        let serving = bridge.serving.clone();
        bridge.admin.spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(serving.cancelled_owned());
            if let Err(error) = served.await {
                warn!(%error, "admin server ended");
            }
        });
        info!(admin = %admin_address, epoch = bridge.epoch.0, "bridge started");
        Ok(bridge)
    }

    fn start_pools(&self, config: Config) -> AdminState {
        let metrics = Arc::new(Metrics::default());
        let wakes = Wakes::new(config.envoys.len());
        let catalog = Catalog::new(config.pools.len(), wakes.clone());
        let tally = ShadowTally::default();
        let policies = PolicyOffice::new(Surroundings::of(&config), catalog.clone(), tally.clone());
        if let Some(path) = config.policy_file.clone() {
            let intake = self.intake.clone();
            let following = policies.clone().follow(path);
            self.pools.spawn(async move {
                tokio::select! {
                    () = following => {}
                    () = intake.cancelled() => {}
                }
            });
        }
        let ids = || (0..=u16::MAX).map(PoolId);
        let (handles, inboxes): (Vec<PoolHandle>, Vec<_>) =
            ids().zip(&config.pools).map(|(id, pool)| PoolHandle::new(id, pool.name.clone())).unzip();
        let envoys: Vec<watch::Receiver<EnvoyStatus>> = config
            .envoys
            .iter()
            .enumerate()
            .map(|(at, envoy)| {
                let publisher = Publisher {
                    envoy: EnvoyIndex(at),
                    config: envoy.clone(),
                    push: config.push,
                    epoch: self.epoch,
                    catalog: catalog.clone(),
                    wakes: wakes.clone(),
                    pools: handles.clone(),
                    metrics: Arc::clone(&metrics),
                };
                let (status, task) = publisher.start(self.publishing.clone());
                self.publishers.spawn(task);
                status
            })
            .collect();
        for ((id, pool), inbox) in ids().zip(config.pools).zip(inboxes) {
            let task = PoolTask {
                id,
                config: pool,
                epoch: self.epoch,
                catalog: catalog.clone(),
                wakes: wakes.clone(),
                envoys: envoys.clone(),
                tally: tally.clone(),
                warm_start: config.warm_start.clone(),
            };
            self.pools.spawn(task.run(inbox, self.intake.clone()));
        }
        AdminState::new(handles, envoys, wakes, metrics, policies, catalog, self.epoch)
    }

    /// Where the admin server listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Epoch of this process.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Stops everything in order.
    pub async fn stop(self) {
        info!("stopping");
        self.intake.cancel();
        self.publishing.cancel();
        let stopped = tokio::time::timeout(STOP_LIMIT, async {
            self.publishers.close();
            self.publishers.wait().await;
            self.serving.cancel();
            self.admin.close();
            self.admin.wait().await;
            self.pools.close();
            self.pools.wait().await;
        });
        match stopped.await {
            Ok(()) => info!("stopped"),
            Err(_) => warn!("some tasks did not end in time"),
        }
    }
}
