//! One pool: workers that serve one base model with one tokenizer and one block size.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kv_routing::block::BlockSize;
use kv_routing::tokens::template::{ContentFormat, RequestedFormat};

use super::error::Problem;
use super::events::{EventDefaults, EventOrigin};
use super::handoff::{self, HandoffConfig};
use super::raw::{RawChat, RawContentFormat, RawEngine, RawLimits, RawPool, RawPredict, RawProbe, RawStale};
use super::worker::{self, WorkerDefaults, WorkerSpec};
use super::{required, within};
use crate::tokenizer::RenderOptions;

const DEFAULT_CLUSTER: &str = "workers";
const DEFAULT_MAX_BLOCKS: u64 = 4_000_000;
const DEFAULT_MAX_ENGINE_BLOCKS: u32 = 16_000_000;
const DEFAULT_MAX_POOL_ENGINE_BLOCKS: u64 = 64_000_000;
const DEFAULT_MAX_ORPHANS: u32 = 65_536;
const DEFAULT_MAX_WORKERS: u32 = 1024;
const DEFAULT_DRAIN_MS: u64 = 2_000;
const DEFAULT_STALE_AFTER_MS: u32 = 3_000;
const DEFAULT_STALE_DECAY_MS: u32 = 60_000;
const DEFAULT_PREDICT_MS: u32 = 5_000;
const DEFAULT_PREDICT_WITHOUT_EVENTS_MS: u32 = 120_000;
const MAX_PREDICT_MS: u32 = 86_400_000;
const DEFAULT_PROBE_INTERVAL_MS: u64 = 1_000;
const DEFAULT_PROBE_TIMEOUT_MS: u64 = 1_000;
const DEFAULT_UNHEALTHY_AFTER: u32 = 2;

/// A pool that can be run.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Name in metrics, logs and explanations.
    pub name: String,
    /// Values of `model` that mean the base model.
    pub models: Vec<String>,
    /// Values of `model` that mean a LoRA adapter of it.
    pub adapters: Vec<String>,
    /// Folder with tokenizer and chat template; `None`: only token-id prompts are matched.
    pub model_dir: Option<PathBuf>,
    /// Where compiled tokenizers that were proved are kept, so that a restart need not do it again.
    pub cache_dir: Option<PathBuf>,
    /// Whether engines are asked for their tokens of built-in prompts, which are compared with ours.
    pub check_with_engine: bool,
    /// How the engine renders chats, where the model's files do not say it.
    pub chat: RenderOptions,
    /// Block size the operator expects; the one in force is learned from events.
    pub block_size: Option<BlockSize>,
    /// Envoy cluster of the workers.
    pub cluster: String,
    /// Endpoint file Envoy watches for that cluster; `None`: the cluster is managed by someone else.
    pub eds_file: Option<PathBuf>,
    /// Disaggregated serving.
    pub handoff: HandoffConfig,
    /// Engine of the workers, which decides the names of load metrics.
    pub engine: EngineKind,
    /// How long a removed worker stays an endpoint after it left the target table.
    pub drain: Duration,
    /// Where workers come from.
    pub workers: WorkerSource,
    /// What workers do not say themselves.
    pub worker_defaults: WorkerDefaults,
    /// Bounds.
    pub limits: PoolLimits,
    /// Health and load probes.
    pub probe: ProbeConfig,
    /// What becomes of KV state when the bridge is gone.
    pub stale: StaleConfig,
    /// What routed prompts tell before events do.
    pub predict: PredictConfig,
}

/// Where a pool's workers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerSource {
    /// The configuration.
    Static(Vec<WorkerSpec>),
    /// A watched file.
    File(PathBuf),
}

/// Which engine a pool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// vLLM and what speaks its metrics.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}

/// Bounds of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Distinct blocks in the index.
    pub max_blocks: u64,
    /// Blocks one target may hold; one that announces more is cleared, since no engine holds that many.
    pub max_engine_blocks: u32,
    /// Blocks of all targets; beyond it the target that has most is cleared.
    pub max_pool_engine_blocks: u64,
    /// Blocks with unknown parents kept per target; the oldest go first.
    pub max_orphans: u32,
    /// Workers at one time.
    pub max_workers: u32,
}

/// How workers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeConfig {
    /// Time between two probes of a worker.
    pub interval: Duration,
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// Failed health probes in a row after which a worker counts as unhealthy; one good answer makes it healthy again.
    pub unhealthy_after: u32,
    /// Path of the health probe.
    pub health_path: String,
    /// Path of the load metrics.
    pub metrics_path: String,
}

/// Ageing of KV state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleConfig {
    /// Heartbeat age in milliseconds at which KV state begins to count as stale.
    pub after_ms: u32,
    /// Milliseconds over which its credit then falls to nothing; 0: it keeps its credit.
    pub decay_ms: u32,
}

/// How long a routed prompt counts as held by its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictConfig {
    /// Milliseconds from its dispatch, while events have not told yet; 0: not at all.
    pub ms: u32,
    /// Milliseconds from its answer, on targets without events; 0: not at all.
    pub without_events_ms: u32,
}

pub(super) fn resolve(raw: RawPool, field: &str, dir: &Path) -> Result<PoolConfig, Problem> {
    let RawPool {
        name,
        models,
        adapters,
        model_dir,
        cache_dir,
        check_with_engine,
        block_size,
        cluster,
        eds_file,
        engine,
        max_batched_tokens,
        drain_ms,
        workers,
        workers_file,
        disaggregation,
        chat,
        limits,
        events,
        probe,
        stale,
        predict,
    } = raw;
    let engine = match engine {
        None | Some(RawEngine::Vllm) => EngineKind::Vllm,
        Some(RawEngine::Sglang) => EngineKind::Sglang,
        Some(RawEngine::Trtllm) => EngineKind::Trtllm,
    };
    let limits = resolve_limits(limits, &format!("{field}.limits"))?;
    let handoff = handoff::resolve(disaggregation, engine, &format!("{field}.disaggregation"), dir)?;
    let worker_defaults = WorkerDefaults {
        events: EventDefaults::resolve(events, engine, &format!("{field}.events"))?,
        max_batched_tokens,
        bootstrap_port: handoff.bootstrap_port,
        role_label: handoff.role_label.clone(),
    };
    if worker_defaults.events.origin == EventOrigin::Polled && worker_defaults.events.enabled && !adapters.is_empty() {
        let what = "the events of /kv_cache_events do not tell adapters from the base model";
        let fix = "leave the adapters out; or set events.enabled: false, which follows answered prompts instead";
        return Err(Problem::new(format!("{field}.adapters"), what, fix));
    }
    let workers = match (workers, workers_file) {
        (Some(list), None) => {
            let field = format!("{field}.workers");
            WorkerSource::Static(worker::resolve_all(list, &field, &worker_defaults, limits.max_workers)?)
        }
        (None, Some(path)) => WorkerSource::File(dir.join(path)),
        (Some(_), Some(_)) => {
            let fix = "keep `workers` or `workers_file`";
            return Err(Problem::new(format!("{field}.workers_file"), "workers are listed here and in a file", fix));
        }
        (None, None) => {
            let fix = "list `workers`, or name a `workers_file`";
            return Err(Problem::new(format!("{field}.workers"), "the pool has no source of workers", fix));
        }
    };
    if models.is_empty() {
        let fix = "list at least the name that clients send as `model`";
        return Err(Problem::new(format!("{field}.models"), "the list is empty", fix));
    }
    for (list, names) in [("models", &models), ("adapters", &adapters)] {
        for (at, name) in names.iter().enumerate() {
            required(name, &format!("{field}.{list}[{at}]"))?;
        }
    }
    Ok(PoolConfig {
        name: required(&name, &format!("{field}.name"))?,
        models,
        adapters,
        model_dir: model_dir.map(|path| dir.join(path)),
        cache_dir: cache_dir.map(|path| dir.join(path)),
        check_with_engine: check_with_engine.unwrap_or(false),
        chat: resolve_chat(chat, &format!("{field}.chat"))?,
        block_size: block_size.map(|size| resolve_block_size(size, &format!("{field}.block_size"))).transpose()?,
        cluster: required(cluster.as_deref().unwrap_or(DEFAULT_CLUSTER), &format!("{field}.cluster"))?,
        eds_file: eds_file.map(|path| dir.join(path)),
        handoff,
        engine,
        drain: within(drain_ms, DEFAULT_DRAIN_MS, 0..=600_000, &format!("{field}.drain_ms"))?,
        workers,
        worker_defaults,
        limits,
        probe: resolve_probe(probe, engine, &format!("{field}.probe"))?,
        stale: resolve_stale(stale, &format!("{field}.stale"))?,
        predict: resolve_predict(predict, &format!("{field}.predict"))?,
    })
}

fn resolve_chat(raw: RawChat, field: &str) -> Result<RenderOptions, Problem> {
    let RawChat {
        content_format,
        default_kwargs,
        exclude_tools_when_none,
        allow_request_template,
        utc_offset_minutes,
        normalize_messages,
    } = raw;
    let utc_offset_minutes = utc_offset_minutes.unwrap_or(0);
    if !(-720..=840).contains(&utc_offset_minutes) {
        let what = format!("{utc_offset_minutes} minutes");
        let fix = "use -720 to 840: minutes that the engines' local time is ahead of UTC";
        return Err(Problem::new(format!("{field}.utc_offset_minutes"), what, fix));
    }
    Ok(RenderOptions {
        content_format: match content_format {
            None | Some(RawContentFormat::Auto) => RequestedFormat::Auto,
            Some(RawContentFormat::String) => RequestedFormat::Fixed(ContentFormat::String),
            Some(RawContentFormat::Openai) => RequestedFormat::Fixed(ContentFormat::Parts),
        },
        default_kwargs: default_kwargs.map(|map| serde_json::Value::Object(map).to_string()).unwrap_or_default(),
        exclude_tools_when_none: exclude_tools_when_none.unwrap_or(false),
        allow_request_template: allow_request_template.unwrap_or(false),
        utc_offset_minutes,
        normalize_messages: normalize_messages.unwrap_or(false),
    })
}

fn resolve_block_size(size: u32, field: &str) -> Result<BlockSize, Problem> {
    BlockSize::new(size).ok_or_else(|| {
        let fix = format!("use 1 to {}, or leave it out: it is learned from events", BlockSize::MAX);
        Problem::new(field, format!("{size} tokens per block"), fix)
    })
}

fn resolve_limits(raw: RawLimits, field: &str) -> Result<PoolLimits, Problem> {
    let RawLimits { max_blocks, max_engine_blocks, max_pool_engine_blocks, max_orphans, max_workers } = raw;
    let max_blocks = max_blocks.unwrap_or(DEFAULT_MAX_BLOCKS);
    if max_blocks < 1024 {
        return Err(Problem::new(format!("{field}.max_blocks"), format!("{max_blocks} blocks"), "use at least 1024"));
    }
    let max_workers = max_workers.unwrap_or(DEFAULT_MAX_WORKERS);
    if !(1..=16_384).contains(&max_workers) {
        let fix = "use 1 to 16384";
        return Err(Problem::new(format!("{field}.max_workers"), format!("{max_workers} workers"), fix));
    }
    let max_engine_blocks = max_engine_blocks.unwrap_or(DEFAULT_MAX_ENGINE_BLOCKS);
    if max_engine_blocks < 1024 {
        let what = format!("{max_engine_blocks} blocks");
        return Err(Problem::new(format!("{field}.max_engine_blocks"), what, "use at least 1024"));
    }
    let max_pool_engine_blocks = max_pool_engine_blocks.unwrap_or(DEFAULT_MAX_POOL_ENGINE_BLOCKS);
    if max_pool_engine_blocks < u64::from(max_engine_blocks) {
        let what = format!("{max_pool_engine_blocks} blocks, and {max_engine_blocks} for one target");
        let fix = "use at least `max_engine_blocks`";
        return Err(Problem::new(format!("{field}.max_pool_engine_blocks"), what, fix));
    }
    let max_orphans = max_orphans.unwrap_or(DEFAULT_MAX_ORPHANS);
    Ok(PoolLimits { max_blocks, max_engine_blocks, max_pool_engine_blocks, max_orphans, max_workers })
}

fn resolve_probe(raw: RawProbe, engine: EngineKind, field: &str) -> Result<ProbeConfig, Problem> {
    let RawProbe { interval_ms, timeout_ms, unhealthy_after, health_path, metrics_path } = raw;
    let path = |path: Option<String>, default: &str, name: &str| match path {
        None => Ok(default.to_owned()),
        Some(path) if path.starts_with('/') && path.parse::<hyper::Uri>().is_ok() => Ok(path),
        Some(path) => {
            let fix = "write a path such as /health";
            Err(Problem::new(format!("{field}.{name}"), format!("`{path}` is not a path"), fix))
        }
    };
    let metrics = if engine == EngineKind::Trtllm { "/prometheus/metrics" } else { "/metrics" };
    let unhealthy_after = unhealthy_after.unwrap_or(DEFAULT_UNHEALTHY_AFTER);
    if unhealthy_after == 0 {
        return Err(Problem::new(format!("{field}.unhealthy_after"), "0 failures", "use at least 1"));
    }
    Ok(ProbeConfig {
        interval: within(interval_ms, DEFAULT_PROBE_INTERVAL_MS, 50..=60_000, &format!("{field}.interval_ms"))?,
        timeout: within(timeout_ms, DEFAULT_PROBE_TIMEOUT_MS, 10..=60_000, &format!("{field}.timeout_ms"))?,
        unhealthy_after,
        health_path: path(health_path, "/health", "health_path")?,
        metrics_path: path(metrics_path, metrics, "metrics_path")?,
    })
}

fn resolve_stale(raw: RawStale, field: &str) -> Result<StaleConfig, Problem> {
    let RawStale { after_ms, decay_ms } = raw;
    let after_ms = after_ms.unwrap_or(DEFAULT_STALE_AFTER_MS);
    if after_ms < 1_000 {
        let fix = "use at least 1000: the heartbeat itself comes every few hundred milliseconds";
        return Err(Problem::new(format!("{field}.after_ms"), format!("{after_ms} ms"), fix));
    }
    Ok(StaleConfig { after_ms, decay_ms: decay_ms.unwrap_or(DEFAULT_STALE_DECAY_MS) })
}

fn resolve_predict(raw: RawPredict, field: &str) -> Result<PredictConfig, Problem> {
    let bounded = |value: Option<u32>, default: u32, name: &str| {
        let value = value.unwrap_or(default);
        if value > MAX_PREDICT_MS {
            let fix = format!("use at most {MAX_PREDICT_MS}, which is a day");
            return Err(Problem::new(format!("{field}.{name}"), format!("{value} ms"), fix));
        }
        Ok(value)
    };
    Ok(PredictConfig {
        ms: bounded(raw.ms, DEFAULT_PREDICT_MS, "ms")?,
        without_events_ms: bounded(raw.without_events_ms, DEFAULT_PREDICT_WITHOUT_EVENTS_MS, "without_events_ms")?,
    })
}
