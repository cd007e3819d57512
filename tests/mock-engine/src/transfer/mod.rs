//! Disaggregated serving: prefill engines hold blocks, decode engines fetch them over HTTP from a side channel.
//!
//! | protocol | prefill request | answer carries | decode request | who may be first |
//! |---|---|---|---|---|
//! | NIXL | `kv_transfer_params.do_remote_decode` | `kv_transfer_params` | those, with `do_remote_prefill` | prefill |
//! | Mooncake | the same with a `transfer_id` | nothing | `transfer_id`, `remote_bootstrap_addr`, `remote_engine_id` | either |
//! | SGLang | `bootstrap_host`, `_port`, `_room` | nothing, and not before decode has connected | the same three | both at once |
//! | TensorRT-LLM | `disaggregated_params` `context_only` | `disaggregated_params`, prompt ids | those, `generation_only` | prefill |
//!
//! A decode engine refuses a request whose parameters do not name a held prefill of the very same prompt tokens.

mod client;
mod fields;
mod hold;
mod ids;
mod side;
mod store;

pub use client::PullError;
pub(crate) use client::Wanted;
pub use fields::{Fetch, HandOff, HandOffError, parse};
pub use hold::{HeldAnswer, Registration};
pub use ids::{engine_id, prompt_digest, seal};
pub use side::side_router;
pub use store::{Pull, PullRefusal, TransferStore};

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What an engine does in a disaggregated pool.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Prefill, decode and plain serving.
    #[default]
    Both,
    /// Holds blocks; never fetches any.
    Prefill,
    /// Fetches blocks; never holds any.
    Decode,
}

/// How blocks are handed over.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PdProtocol {
    /// vLLM, NIXL connector.
    #[default]
    Nixl,
    /// vLLM, Mooncake connector.
    Mooncake,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}

/// Disaggregation settings.
#[derive(Clone, Debug)]
pub struct TransferConfig {
    /// Part in the pool.
    pub role: Role,
    /// Protocol.
    pub protocol: PdProtocol,
    /// Address of the side channel, also as written into hand-off parameters.
    pub side_host: IpAddr,
    /// Port of the side channel (SGLang and Mooncake: bootstrap port); 0 lets the system choose.
    pub side_port: u16,
    /// How long blocks are held for a decode engine (real time).
    pub hold_timeout: Duration,
    /// How long one side waits for the other to appear (real time).
    pub rendezvous_timeout: Duration,
    /// Tokens transferred per second.
    pub tokens_per_s: f64,
    /// Whether prompts whose prefill engine is gone are computed again, as with vLLM's `kv_load_failure_policy: recompute`.
    pub recompute_lost: bool,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            role: Role::Both,
            protocol: PdProtocol::Nixl,
            side_host: IpAddr::from([127, 0, 0, 1]),
            side_port: 0,
            // vLLM's own default.
            hold_timeout: Duration::from_secs(480),
            rendezvous_timeout: Duration::from_secs(30),
            tokens_per_s: 400_000.0,
            recompute_lost: false,
        }
    }
}
