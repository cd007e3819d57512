//! Raw configuration to one that cannot be wrong.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::endpoint::IngestEndpoint;
use super::error::Problem;
use super::pool::PoolConfig;
use super::raw::{RawAdmin, RawConfig, RawEnvoy, RawLog, RawLogFormat, RawPolicySource, RawPush, RawWarmStart};
use super::{AdminConfig, Config, EnvoyConfig, LogConfig, LogFormat, PushConfig, WarmStart, pool, within};

const DEFAULT_ADMIN: &str = "127.0.0.1:9902";
const DEFAULT_FILTER: &str = "info";
const DEFAULT_INTERVAL_MS: u64 = 4;
const DEFAULT_HEARTBEAT_MS: u64 = 500;
const DEFAULT_SAVE_MS: u64 = 60_000;
const DEFAULT_TIMEOUT_MS: u64 = 5_000;
/// Pools are numbered by a `u16` in keys; far fewer make sense in one Envoy.
const MAX_POOLS: usize = 256;

pub(super) fn resolve(raw: RawConfig, dir: &Path) -> Result<Config, Problem> {
    let RawConfig { envoys, admin, log, push, policy: RawPolicySource { file: policy_file }, warm_start, pools } = raw;
    let envoys = envoys
        .into_iter()
        .enumerate()
        .map(|(at, envoy)| resolve_envoy(envoy, &format!("envoys[{at}]"), dir))
        .collect::<Result<Vec<_>, _>>()?;
    distinct(envoys.iter().map(|envoy| envoy.name.as_str()), |at| format!("envoys[{at}].name"))?;
    if pools.is_empty() || pools.len() > MAX_POOLS {
        return Err(Problem::new("pools", format!("{} pools", pools.len()), format!("list 1 to {MAX_POOLS}")));
    }
    let pools = pools
        .into_iter()
        .enumerate()
        .map(|(at, raw)| pool::resolve(raw, &format!("pools[{at}]"), dir))
        .collect::<Result<Vec<_>, _>>()?;
    check_pools(&pools)?;
    Ok(Config {
        envoys,
        admin: resolve_admin(admin)?,
        log: resolve_log(log)?,
        push: resolve_push(push)?,
        policy_file: policy_file.map(|path| dir.join(path)),
        warm_start: resolve_warm_start(warm_start, dir)?,
        pools,
    })
}

fn resolve_envoy(raw: RawEnvoy, field: &str, dir: &Path) -> Result<EnvoyConfig, Problem> {
    let RawEnvoy { name, endpoint, secret_file } = raw;
    let endpoint = IngestEndpoint::parse(&endpoint).map_err(|what| {
        let fix = "write unix:/path/to/ingest.sock, or http://host:port with a secret_file";
        Problem::new(format!("{field}.endpoint"), what, fix)
    })?;
    let endpoint = match endpoint {
        IngestEndpoint::Unix(path) => IngestEndpoint::Unix(dir.join(path)),
        tcp @ IngestEndpoint::Tcp { .. } => tcp,
    };
    if matches!(endpoint, IngestEndpoint::Tcp { .. }) && secret_file.is_none() {
        let fix = "name a file that holds the secret of this Envoy's ingest listener, or use a Unix socket";
        return Err(Problem::new(format!("{field}.secret_file"), "pushes over TCP need a secret", fix));
    }
    Ok(EnvoyConfig {
        name: name.unwrap_or_else(|| endpoint.to_string()),
        endpoint,
        secret_file: secret_file.map(|path| dir.join(path)),
    })
}

/// What must be unique over all pools: names, models and adapters (a request names one pool), endpoint files.
fn check_pools(pools: &[PoolConfig]) -> Result<(), Problem> {
    distinct(pools.iter().map(|pool| pool.name.as_str()), |at| format!("pools[{at}].name"))?;
    let mut models = BTreeMap::new();
    let mut files: BTreeMap<&PathBuf, usize> = BTreeMap::new();
    for (at, pool) in pools.iter().enumerate() {
        let lists = [("models", &pool.models), ("adapters", &pool.adapters)];
        for (list, position, name) in
            lists.into_iter().flat_map(|(list, names)| names.iter().enumerate().map(move |(i, name)| (list, i, name)))
        {
            if let Some(first) = models.insert(name.as_str(), at) {
                return Err(Problem::new(
                    format!("pools[{at}].{list}[{position}]"),
                    format!("`{name}` already names pool {first}"),
                    "a model or adapter name belongs to one pool",
                ));
            }
        }
        for (field, file) in [("eds_file", &pool.eds_file), ("disaggregation.eds_file", &pool.handoff.eds_file)] {
            if let Some(first) = file.as_ref().and_then(|file| files.insert(file, at)) {
                return Err(Problem::new(
                    format!("pools[{at}].{field}"),
                    format!("pool {first} writes the same file"),
                    "give each cluster of each pool its own endpoint file",
                ));
            }
        }
    }
    Ok(())
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>, field: impl Fn(usize) -> String) -> Result<(), Problem> {
    let mut seen = BTreeMap::new();
    for (at, name) in names.enumerate() {
        if let Some(first) = seen.insert(name, at) {
            return Err(Problem::new(field(at), format!("`{name}` is already number {first}"), "names must differ"));
        }
    }
    Ok(())
}

fn resolve_admin(raw: RawAdmin) -> Result<AdminConfig, Problem> {
    let RawAdmin { listen } = raw;
    let listen = listen.unwrap_or_else(|| DEFAULT_ADMIN.to_owned());
    let parsed: Result<SocketAddr, _> = listen.parse();
    parsed.map(|listen| AdminConfig { listen }).map_err(|_| {
        Problem::new("admin.listen", format!("`{listen}` is not ip:port"), format!("write it like {DEFAULT_ADMIN}"))
    })
}

fn resolve_log(raw: RawLog) -> Result<LogConfig, Problem> {
    let RawLog { filter, format } = raw;
    let filter = filter.unwrap_or_else(|| DEFAULT_FILTER.to_owned());
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&filter) {
        let fix = "write a level such as `info`, or directives such as `info,event_bridge::publish=debug`";
        return Err(Problem::new("log.filter", format!("`{filter}` is not a log filter ({error})"), fix));
    }
    let format = match format {
        None | Some(RawLogFormat::Text) => LogFormat::Text,
        Some(RawLogFormat::Json) => LogFormat::Json,
    };
    Ok(LogConfig { filter, format })
}

fn resolve_warm_start(raw: RawWarmStart, folder: &Path) -> Result<Option<WarmStart>, Problem> {
    let RawWarmStart { dir, interval_ms } = raw;
    let interval = within(interval_ms, DEFAULT_SAVE_MS, 100..=3_600_000, "warm_start.interval_ms")?;
    match (dir, interval_ms) {
        (Some(dir), _) => Ok(Some(WarmStart { dir: folder.join(dir), interval })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err(Problem::new("warm_start.dir", "is missing", "name a folder that the bridge may write to"))
        }
    }
}

fn resolve_push(raw: RawPush) -> Result<PushConfig, Problem> {
    let RawPush { interval_ms, heartbeat_ms, timeout_ms } = raw;
    Ok(PushConfig {
        interval: within(interval_ms, DEFAULT_INTERVAL_MS, 1..=1_000, "push.interval_ms")?,
        heartbeat: within(heartbeat_ms, DEFAULT_HEARTBEAT_MS, 50..=1_000, "push.heartbeat_ms")?,
        timeout: within(timeout_ms, DEFAULT_TIMEOUT_MS, 100..=60_000, "push.timeout_ms")?,
    })
}
