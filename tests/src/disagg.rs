//! A disaggregated pool: prefill and decode engines behind one Envoy.

use mock_engine::{EngineConfig, PdProtocol, Role, TransferConfig};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::envoy;
use crate::stack::{Options, Stack};

/// A stack over prefill and decode engines.
#[derive(Debug)]
pub struct Split {
    /// Envoy and bridge.
    pub stack: Stack,
    /// Prefill engines.
    pub prefill: Vec<Engine>,
    /// Decode engines.
    pub decode: Vec<Engine>,
}

/// `config` for an engine with `role`.
pub fn with_role(config: &EngineConfig, role: Role) -> EngineConfig {
    EngineConfig { transfer: TransferConfig { role, ..config.transfer.clone() }, ..config.clone() }
}

/// Members of the bridge's pool whose engines hand over by `protocol`.
pub fn pool(protocol: PdProtocol) -> Value {
    json!({"disaggregation": {"protocol": protocol, "cluster": "prefill", "eds_file": "prefill-eds.json"}})
}

/// Envoy on the configuration for that protocol.
pub fn envoy(protocol: PdProtocol) -> envoy::Options {
    let config = match protocol {
        PdProtocol::Sglang => "envoy/envoy-disagg-repeat.yaml",
        PdProtocol::Nixl | PdProtocol::Mooncake | PdProtocol::Trtllm => "envoy/envoy-disagg.yaml",
    };
    envoy::Options { config, ..envoy::Options::default() }
}

impl Split {
    /// Starts `prefill` and `decode` engines; `config` says by which protocol they hand over.
    pub async fn start(config: &EngineConfig, prefill: usize, decode: usize) -> Self {
        let protocol = config.transfer.protocol;
        let options = Options { envoy: envoy(protocol), pool: pool(protocol), ..Options::default() };
        Self::start_with(config, prefill, decode, options).await
    }

    /// The same with other options.
    pub async fn start_with(config: &EngineConfig, prefill: usize, decode: usize, options: Options) -> Self {
        let prefill = Engine::start_many(prefill, &with_role(config, Role::Prefill)).await;
        let decode = Engine::start_many(decode, &with_role(config, Role::Decode)).await;
        let workers: Vec<_> = prefill.iter().chain(&decode).map(Engine::worker).collect();
        Self { stack: Stack::start(&workers, options).await, prefill, decode }
    }

    /// Sum of a metric over all decode engines.
    pub async fn decoded(&self, metric: &str) -> u64 {
        let mut sum = 0;
        for engine in &self.decode {
            sum += engine.metric(metric).await;
        }
        sum
    }

    /// Prefills whose blocks were fetched.
    pub async fn pulled(&self) -> u64 {
        let mut sum = 0;
        for engine in &self.prefill {
            sum += engine.metric("mock:pulls_total").await;
        }
        sum
    }

    /// Blocks held on all prefill engines.
    pub fn held_blocks(&self) -> usize {
        self.prefill.iter().map(|engine| engine.held().1).sum()
    }
}
