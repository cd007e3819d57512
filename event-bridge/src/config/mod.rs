//! Configuration: a YAML file as written (`raw`), resolved into types whose fields cannot be wrong.
//!
//! A refused file names the field by its path and says what to do. Relative paths in a file are relative to the
//! folder of that file. `config.example.yaml` in the crate's folder shows every field.

mod endpoint;
mod error;
mod events;
mod handoff;
mod parse;
mod pool;
mod raw;
mod resolve;
#[cfg(test)]
mod tests;
mod worker;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use endpoint::{IngestEndpoint, PUSH_PATH, WorkerAddress};
pub use error::{ConfigError, Problem};
pub use events::{EventDefaults, EventFeed, EventOrigin, EventStream, PortRule};
pub use handoff::{BootstrapSpec, HandoffConfig};
pub use parse::{MAX_FILE_BYTES, read};
pub use pool::{EngineKind, PoolConfig, PoolLimits, PredictConfig, ProbeConfig, StaleConfig, WorkerSource};
#[cfg(test)]
pub(crate) use worker::test_worker;
pub use worker::{MAX_RANKS, RankSpec, WorkerDefaults, WorkerSpec};

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Envoys to push to; none is allowed, for a bridge that only watches.
    pub envoys: Vec<EnvoyConfig>,
    /// Admin HTTP server.
    pub admin: AdminConfig,
    /// Logging.
    pub log: LogConfig,
    /// Push timing.
    pub push: PushConfig,
    /// Route policy document, watched; `None`: only what is put over the admin API.
    pub policy_file: Option<PathBuf>,
    /// Where a pool's state is kept across restarts of the bridge; `None`: it is not.
    pub warm_start: Option<WarmStart>,
    /// Pools, at least one; their position is their number in shared-data keys.
    pub pools: Vec<PoolConfig>,
}

/// State kept across restarts of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmStart {
    /// Folder of its files.
    pub dir: PathBuf,
    /// Time between two saves of a target.
    pub interval: Duration,
}

/// One Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyConfig {
    /// Name in metrics and logs.
    pub name: String,
    /// Its ingest listener.
    pub endpoint: IngestEndpoint,
    /// File with the bearer secret, read at every connect so that it can be rotated.
    pub secret_file: Option<PathBuf>,
}

/// Admin HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens; port 0 lets the system choose.
    pub listen: SocketAddr,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Directives of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Shape of a line.
    pub format: LogFormat,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// Its name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Push timing, the same for every Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushConfig {
    /// Least time between the starts of two pushes of pages.
    pub interval: Duration,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Longest wait for a reply.
    pub timeout: Duration,
}

impl Config {
    /// Reads, parses and resolves a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the field and the fix.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read(path)?, path)
    }

    /// Parses and resolves the text of a configuration file; `path` is for errors and relative paths.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let dir = path.parent().unwrap_or(Path::new(""));
        resolve::resolve(parse::parse(text, path)?, dir).map_err(|problem| problem.in_file(path))
    }
}

/// Parses and resolves the text of a workers file; `path` is for errors.
///
/// # Errors
/// [`ConfigError`] names the file, the field and the fix.
pub fn parse_workers(
    text: &str,
    path: &Path,
    defaults: &WorkerDefaults,
    limits: PoolLimits,
) -> Result<Vec<WorkerSpec>, ConfigError> {
    let raw::RawWorkersFile { workers } = parse::parse(text, path)?;
    worker::resolve_all(workers, "workers", defaults, limits.max_workers).map_err(|problem| problem.in_file(path))
}

fn required(text: &str, field: &str) -> Result<String, Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(field, "is empty", "give it a value"));
    }
    Ok(text.to_owned())
}

fn within(millis: Option<u64>, default: u64, range: RangeInclusive<u64>, field: &str) -> Result<Duration, Problem> {
    let millis = millis.unwrap_or(default);
    if range.contains(&millis) {
        return Ok(Duration::from_millis(millis));
    }
    let fix = format!("use {} to {}", range.start(), range.end());
    Err(Problem::new(field, format!("{millis} ms"), fix))
}
