//! Disaggregated serving of a pool: how prefill workers hand over, and where they are.

use std::path::{Path, PathBuf};

use kv_routing::handoff::Protocol;
use kv_routing::wire::TargetEntry;

use super::endpoint::WorkerAddress;
use super::error::Problem;
use super::pool::EngineKind;
use super::raw::{RawBootstrap, RawHandoff, RawProtocol};
use super::required;

const DEFAULT_CLUSTER: &str = "prefill";

/// How a pool's prefill workers hand over to its decode workers. Without effect in a pool that has no workers of these roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffConfig {
    /// Protocol of the engines: as configured, else what is usual with them.
    pub protocol: Protocol,
    /// Whether it is configured. vLLM's has two, of which one can be told by its bootstrap server.
    pub configured: bool,
    /// Envoy cluster of the prefill workers.
    pub cluster: String,
    /// Endpoint file Envoy watches for that cluster; `None`: the cluster is managed by someone else.
    pub eds_file: Option<PathBuf>,
    /// Port of bootstrap servers, for workers that name none.
    pub bootstrap_port: Option<u16>,
    /// Label that tells the role of workers that are given none.
    pub role_label: String,
}

/// Label of that name in llm-d's deployments.
const DEFAULT_ROLE_LABEL: &str = "llm-d.ai/role";

impl HandoffConfig {
    /// Whether engines are asked for their protocol.
    pub fn is_asked(&self) -> bool {
        !self.configured && self.protocol == Protocol::Nixl
    }

    /// The protocol of a pool with these `targets`: only Mooncake's prefill engines tell an id.
    pub fn protocol_of(&self, targets: &[TargetEntry]) -> Protocol {
        let tells = |target: &TargetEntry| target.bootstrap.as_ref().is_some_and(|known| known.engine_id.is_some());
        if self.is_asked() && targets.iter().any(tells) { Protocol::Mooncake } else { self.protocol }
    }
}

/// Where one worker's bootstrap server is, as far as configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapSpec {
    /// Its host, as decode engines reach it.
    pub host: String,
    /// Its port; `None`: what the engine says, else [`BootstrapSpec::DEFAULT_PORT`].
    pub port: Option<u16>,
    /// The engine's id; `None`: what the engine says.
    pub engine_id: Option<String>,
}

impl BootstrapSpec {
    /// Port of SGLang's and Mooncake's bootstrap servers unless they are told another.
    pub const DEFAULT_PORT: u16 = 8998;

    /// Of a worker at `address` that says nothing about it.
    pub fn at(address: WorkerAddress) -> Self {
        Self { host: address.socket().ip().to_string(), port: None, engine_id: None }
    }

    pub(super) fn resolve(raw: RawBootstrap, address: WorkerAddress, default_port: Option<u16>) -> Self {
        let RawBootstrap { host, port, engine_id } = raw;
        let at = Self::at(address);
        Self { host: host.unwrap_or(at.host), port: port.or(default_port), engine_id }
    }
}

pub(super) fn resolve(raw: RawHandoff, engine: EngineKind, field: &str, dir: &Path) -> Result<HandoffConfig, Problem> {
    let RawHandoff { protocol, cluster, eds_file, bootstrap_port, role_label } = raw;
    let configured = protocol.is_some();
    let protocol = match (protocol, engine) {
        (Some(RawProtocol::Nixl), _) | (None, EngineKind::Vllm) => Protocol::Nixl,
        (Some(RawProtocol::Mooncake), _) => Protocol::Mooncake,
        (Some(RawProtocol::Sglang), _) | (None, EngineKind::Sglang) => Protocol::Sglang,
        (Some(RawProtocol::Trtllm), _) | (None, EngineKind::Trtllm) => Protocol::TensorRtLlm,
        (Some(RawProtocol::Header), _) => Protocol::Header,
    };
    Ok(HandoffConfig {
        protocol,
        configured,
        cluster: required(cluster.as_deref().unwrap_or(DEFAULT_CLUSTER), &format!("{field}.cluster"))?,
        eds_file: eds_file.map(|path| dir.join(path)),
        bootstrap_port,
        role_label: required(role_label.as_deref().unwrap_or(DEFAULT_ROLE_LABEL), &format!("{field}.role_label"))?,
    })
}
