//! Starting and stopping a whole engine in this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::cache::BlockHasher;
use crate::config::{ConfigError, EngineConfig, EventsConfig, ModelSource};
use crate::engine::{Rank, RankConfig};
use crate::events::{Publisher, PublisherConfig, PublisherError};
use crate::http::{App, AppParts, Bound, Faults, Server, router};
use crate::model::{Model, ModelError};
use crate::sched::SchedulerLimits;
use crate::transfer::{Role, side_router};

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model folder.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An event socket.
    #[error(transparent)]
    Publisher(#[from] PublisherError),
    /// The HTTP listener.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Wanted address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// An endpoint whose port cannot be shifted by the rank.
    #[error("event endpoint {0} must end in a port below {1}")]
    Endpoint(String, u32),
}

/// A running engine. Dropping it ends everything at once, as a killed process would.
#[derive(Debug)]
pub struct MockEngine {
    app: Arc<App>,
    server: Server,
    side: Option<Server>,
    crashed: watch::Receiver<bool>,
}

impl MockEngine {
    /// Starts an engine and returns when it serves.
    ///
    /// # Errors
    /// When the configuration, the model folder or a socket does not allow it.
    pub async fn start(config: EngineConfig) -> Result<Self, StartError> {
        let max_model_len = config.checked_max_model_len()?;
        let model = load_model(&config.model)?;
        let mut ranks = Vec::new();
        for rank in 0..config.data_parallel_size {
            let publisher = match &config.events {
                Some(events) => Some(Publisher::start(publisher_config(events, rank)?).await?),
                None => None,
            };
            ranks.push(Rank::start(rank_config(&config, max_model_len), publisher));
        }
        let http = bind(SocketAddr::new(config.host, config.port)).await?;
        let side = match config.transfer.role {
            Role::Decode => None,
            Role::Both | Role::Prefill => {
                Some(bind(SocketAddr::new(config.transfer.side_host, config.transfer.side_port)).await?)
            }
        };
        let (crash, crashed) = watch::channel(false);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let side_address = side.as_ref().map(Bound::address);
        let parts = AppParts { model, ranks, max_model_len, started, side_address, crash };
        let app = Arc::new(App::new(config, parts));
        let side = side.map(|side| side.serve(side_router(app.clone())));
        let server = http.serve(router(app.clone()));
        Ok(Self { app, server, side, crashed })
    }

    /// Address of the HTTP interface.
    pub fn http_addr(&self) -> SocketAddr {
        self.server.address()
    }

    /// Address of the side channel that decode engines fetch blocks from; none on decode engines.
    pub fn side_addr(&self) -> Option<SocketAddr> {
        self.side.as_ref().map(Server::address)
    }

    /// PUB endpoint of rank 0, when events are on.
    pub fn events_endpoint(&self) -> Option<&str> {
        self.events_endpoint_of(0)
    }

    /// PUB endpoint of a rank.
    pub fn events_endpoint_of(&self, rank: usize) -> Option<&str> {
        self.app.ranks.get(rank)?.publisher().map(Publisher::endpoint)
    }

    /// Replay endpoint of rank 0, when there is one.
    pub fn replay_endpoint(&self) -> Option<&str> {
        self.replay_endpoint_of(0)
    }

    /// Replay endpoint of a rank.
    pub fn replay_endpoint_of(&self, rank: usize) -> Option<&str> {
        self.app.ranks.get(rank)?.publisher()?.replay_endpoint()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.app.ranks.len()
    }

    /// Tokenizer and template.
    pub fn model(&self) -> &Arc<Model> {
        &self.app.model
    }

    /// The engine's insides, for tests that look at metrics or the cache.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Puts faults in force.
    pub fn set_faults(&self, faults: Faults) {
        self.app.set_faults(faults);
    }

    /// Resolves when a client asked the engine to crash. The owner then drops the engine.
    pub async fn crashed(&mut self) {
        // The sender lives in the app, which lives as long as this handle.
        let _ = self.crashed.wait_for(|crashed| *crashed).await;
    }

    /// Ends everything at once.
    pub fn stop(self) {
        drop(self);
    }
}

async fn bind(address: SocketAddr) -> Result<Bound, StartError> {
    Bound::new(address).await.map_err(|source| StartError::Listen { address, source })
}

fn load_model(source: &ModelSource) -> Result<Arc<Model>, ModelError> {
    match source {
        ModelSource::Loaded(model) => Ok(model.clone()),
        ModelSource::Dir(dir) => Model::load(dir).map(Arc::new),
    }
}

fn rank_config(config: &EngineConfig, max_model_len: u32) -> RankConfig {
    RankConfig {
        limits: SchedulerLimits {
            block_size: config.block_size as usize,
            num_blocks: config.num_blocks,
            max_num_seqs: config.max_num_seqs as usize,
            max_num_batched_tokens: config.max_num_batched_tokens as usize,
            max_model_len: max_model_len as usize,
        },
        hasher: BlockHasher::new(&config.hash_seed),
        speed: config.speed,
        hold_timeout: config.transfer.hold_timeout,
    }
}

fn publisher_config(events: &EventsConfig, rank: u32) -> Result<PublisherConfig, StartError> {
    let replay = events.replay_endpoint.as_ref().map(|endpoint| for_rank(endpoint, rank));
    Ok(PublisherConfig {
        endpoint: for_rank(&events.endpoint, rank)?,
        replay_endpoint: replay.transpose()?,
        topic: events.topic.clone(),
        buffer_steps: events.buffer_steps,
        rank,
    })
}

/// The endpoint with the port moved by the rank; port 0 stays.
fn for_rank(endpoint: &str, rank: u32) -> Result<String, StartError> {
    let wrong = || StartError::Endpoint(endpoint.to_owned(), 65_536 - rank);
    if endpoint.starts_with("ipc://") && rank == 0 {
        return Ok(endpoint.to_owned());
    }
    let (host, port) = endpoint.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let shifted = if port == 0 { 0 } else { u32::from(port) + rank };
    let shifted = u16::try_from(shifted).map_err(|_| wrong())?;
    Ok(format!("{host}:{shifted}"))
}
