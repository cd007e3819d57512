//! The configuration file as it is written. Nothing here is checked beyond its shape; `resolve` does that.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    pub(super) envoys: Vec<RawEnvoy>,
    #[serde(default)]
    pub(super) admin: RawAdmin,
    #[serde(default)]
    pub(super) log: RawLog,
    #[serde(default)]
    pub(super) push: RawPush,
    #[serde(default)]
    pub(super) policy: RawPolicySource,
    #[serde(default)]
    pub(super) warm_start: RawWarmStart,
    pub(super) pools: Vec<RawPool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEnvoy {
    pub(super) name: Option<String>,
    pub(super) endpoint: String,
    pub(super) secret_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    pub(super) listen: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    pub(super) filter: Option<String>,
    pub(super) format: Option<RawLogFormat>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawLogFormat {
    Text,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicySource {
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWarmStart {
    pub(super) dir: Option<PathBuf>,
    pub(super) interval_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPush {
    pub(super) interval_ms: Option<u64>,
    pub(super) heartbeat_ms: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPool {
    pub(super) name: String,
    pub(super) models: Vec<String>,
    #[serde(default)]
    pub(super) adapters: Vec<String>,
    pub(super) model_dir: Option<PathBuf>,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) check_with_engine: Option<bool>,
    pub(super) block_size: Option<u32>,
    pub(super) cluster: Option<String>,
    pub(super) eds_file: Option<PathBuf>,
    pub(super) engine: Option<RawEngine>,
    pub(super) max_batched_tokens: Option<u64>,
    pub(super) drain_ms: Option<u64>,
    pub(super) workers: Option<Vec<RawWorker>>,
    pub(super) workers_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) disaggregation: RawHandoff,
    #[serde(default)]
    pub(super) chat: RawChat,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) events: RawEvents,
    #[serde(default)]
    pub(super) probe: RawProbe,
    #[serde(default)]
    pub(super) stale: RawStale,
    #[serde(default)]
    pub(super) predict: RawPredict,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawEngine {
    Vllm,
    Sglang,
    Trtllm,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHandoff {
    pub(super) protocol: Option<RawProtocol>,
    pub(super) cluster: Option<String>,
    pub(super) eds_file: Option<PathBuf>,
    pub(super) bootstrap_port: Option<u16>,
    pub(super) role_label: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawProtocol {
    Nixl,
    Mooncake,
    Sglang,
    Trtllm,
    Header,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChat {
    pub(super) content_format: Option<RawContentFormat>,
    pub(super) default_kwargs: Option<serde_json::Map<String, serde_json::Value>>,
    pub(super) exclude_tools_when_none: Option<bool>,
    pub(super) allow_request_template: Option<bool>,
    pub(super) utc_offset_minutes: Option<i32>,
    pub(super) normalize_messages: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawContentFormat {
    Auto,
    String,
    Openai,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) max_blocks: Option<u64>,
    pub(super) max_engine_blocks: Option<u32>,
    pub(super) max_pool_engine_blocks: Option<u64>,
    pub(super) max_orphans: Option<u32>,
    pub(super) max_workers: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEvents {
    pub(super) enabled: Option<bool>,
    pub(super) source: Option<RawEventSource>,
    pub(super) port: Option<u16>,
    pub(super) port_offset: Option<i32>,
    pub(super) replay_port: Option<u16>,
    pub(super) replay_port_offset: Option<i32>,
    pub(super) topic: Option<String>,
    pub(super) gap_policy: Option<RawGapPolicy>,
    pub(super) parity: Option<RawParityPolicy>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawGapPolicy {
    Clear,
    Keep,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawParityPolicy {
    Enforce,
    Report,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawEventSource {
    Ports,
    Engine,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProbe {
    pub(super) interval_ms: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) unhealthy_after: Option<u32>,
    pub(super) health_path: Option<String>,
    pub(super) metrics_path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStale {
    pub(super) after_ms: Option<u32>,
    pub(super) decay_ms: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPredict {
    pub(super) ms: Option<u32>,
    pub(super) without_events_ms: Option<u32>,
}

/// A workers file: the same list as `pools[].workers`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkersFile {
    pub(super) workers: Vec<RawWorker>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorker {
    pub(super) address: String,
    pub(super) role: Option<RawRole>,
    pub(super) ranks: Option<u32>,
    pub(super) first_rank: Option<u32>,
    pub(super) events: Option<RawWorkerEvents>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) drain: bool,
    pub(super) max_batched_tokens: Option<u64>,
    #[serde(default)]
    pub(super) bootstrap: RawBootstrap,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBootstrap {
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) engine_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawRole {
    Both,
    Prefill,
    Decode,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkerEvents {
    pub(super) enabled: Option<bool>,
    pub(super) endpoint: Option<String>,
    pub(super) replay: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) bind: Option<bool>,
}
