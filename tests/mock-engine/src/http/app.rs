//! What all handlers share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use tokio::sync::watch;

use super::error::ApiError;
use super::faults::Faults;
use crate::cache::CacheScope;
use crate::config::{Adapter, EngineConfig};
use crate::engine::Rank;
use crate::model::Model;
use crate::transfer::{TransferStore, engine_id};

/// The engine behind the HTTP interface.
#[derive(Debug)]
pub struct App {
    /// How it was started.
    pub config: EngineConfig,
    /// Tokenizer and template.
    pub model: Arc<Model>,
    /// One per data-parallel rank.
    pub ranks: Vec<Rank>,
    /// Longest prompt plus answer.
    pub max_model_len: u32,
    /// Seconds since 1970 at start.
    pub started: f64,
    /// Prefills held for decode engines.
    pub transfers: Arc<TransferStore>,
    /// Address of the side channel; none on decode engines.
    pub side_address: Option<SocketAddr>,
    pub(super) counts: TransferCounts,
    pub(super) faults: Mutex<Faults>,
    pub(super) answered: Mutex<BTreeMap<(String, String, String), u64>>,
    pub(super) crash: watch::Sender<bool>,
    next_request: AtomicU64,
}

/// Hand-overs so far.
#[derive(Debug, Default)]
pub(super) struct TransferCounts {
    /// Handed over to decode engines.
    pub(super) pulls: AtomicU64,
    /// Refused to decode engines.
    pub(super) refused_pulls: AtomicU64,
    /// Received from prefill engines.
    pub(super) fetches: AtomicU64,
    /// Not received from prefill engines.
    pub(super) failed_fetches: AtomicU64,
}

impl TransferCounts {
    /// Metric names, help and values.
    pub(super) fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("mock:pulls_total", "Held prefills handed over.", value(&self.pulls)),
            ("mock:refused_pulls_total", "Fetches of held prefills refused.", value(&self.refused_pulls)),
            ("mock:fetches_total", "Prefills received from other engines.", value(&self.fetches)),
            ("mock:failed_fetches_total", "Prefills not received from other engines.", value(&self.failed_fetches)),
        ]
    }
}

/// What [`App::new`] needs beside the configuration.
#[derive(Debug)]
pub struct AppParts {
    /// Tokenizer and template.
    pub model: Arc<Model>,
    /// One per data-parallel rank.
    pub ranks: Vec<Rank>,
    /// Longest prompt plus answer.
    pub max_model_len: u32,
    /// Seconds since 1970 at start.
    pub started: f64,
    /// Address of the side channel, when there is one.
    pub side_address: Option<SocketAddr>,
    /// Turns true when a client asks the engine to die.
    pub crash: watch::Sender<bool>,
}

impl App {
    /// The shared state of one engine.
    pub fn new(config: EngineConfig, parts: AppParts) -> Self {
        let AppParts { model, ranks, max_model_len, started, side_address, crash } = parts;
        let transfers = Arc::new(TransferStore::new(config.transfer.rendezvous_timeout));
        Self {
            config,
            model,
            ranks,
            max_model_len,
            started,
            transfers,
            side_address,
            counts: TransferCounts::default(),
            faults: Mutex::new(Faults::default()),
            answered: Mutex::new(BTreeMap::new()),
            crash,
            next_request: AtomicU64::new(0),
        }
    }

    /// Engine id of a rank, by which hand-off parameters name it.
    pub fn engine_id(&self, rank: usize) -> String {
        engine_id(self.started, self.side_address.map_or(0, |address| address.port()), rank)
    }

    /// Counts blocks handed over to a decode engine.
    pub(crate) fn count_pull(&self) {
        self.counts.pulls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts blocks refused to a decode engine.
    pub(crate) fn count_refused_pull(&self) {
        self.counts.refused_pulls.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that no other request of this engine gets.
    pub(super) fn unique(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// The faults in force.
    pub fn faults(&self) -> Faults {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves the request's model name (absent means the base model) to the adapter it stands for.
    pub(super) fn find_model(&self, name: Option<&str>) -> Result<Option<Arc<Adapter>>, ApiError> {
        let Some(name) = name else { return Ok(None) };
        if self.config.served_model_names.iter().any(|served| served == name) {
            return Ok(None);
        }
        let adapter = self.config.adapters.iter().find(|adapter| adapter.name == name);
        adapter.cloned().map(Some).ok_or_else(|| ApiError::unknown_model(name))
    }

    /// Cache scope of a request.
    pub(super) fn scope(&self, model: Option<&str>, salt: Option<String>) -> Result<CacheScope, ApiError> {
        if salt.as_deref() == Some("") {
            return Err(ApiError::bad_field(
                "cache_salt",
                "Parameter 'cache_salt' must be a non-empty string if provided.",
            ));
        }
        let salt = salt.or_else(|| self.config.default_cache_salt.clone());
        Ok(CacheScope { adapter: self.find_model(model)?, salt })
    }

    /// The rank that `X-data-parallel-rank` names, else the least loaded one.
    pub(super) fn choose_rank(&self, headers: &HeaderMap) -> Result<usize, ApiError> {
        if let Some(value) = headers.get("x-data-parallel-rank") {
            let rank = value.to_str().ok().and_then(|text| text.trim().parse::<usize>().ok());
            let size = self.ranks.len();
            return rank.filter(|rank| *rank < size).ok_or_else(|| {
                ApiError::bad_request(format!("data_parallel_rank {value:?} is out of range [0, {size})."))
            });
        }
        let weight = |rank: &Rank| {
            let (running, waiting) = rank.load();
            4 * waiting + running
        };
        let least = self.ranks.iter().enumerate().min_by_key(|(_, rank)| weight(rank));
        Ok(least.map_or(0, |(index, _)| index))
    }

    /// The name shown in answers.
    pub(super) fn shown_model(&self, requested: Option<&str>) -> String {
        requested.map_or_else(|| self.primary_name().to_owned(), str::to_owned)
    }

    /// First served name.
    pub(super) fn primary_name(&self) -> &str {
        self.config.served_model_names.first().map_or("mock", String::as_str)
    }

    /// The id of an answer: from `X-Request-Id` when the client sent one.
    pub(super) fn request_id(&self, prefix: &str, headers: &HeaderMap) -> String {
        let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
        match given {
            Some(id) => format!("{prefix}-{id}"),
            None => format!("{prefix}-{:032x}", self.unique()),
        }
    }
}
