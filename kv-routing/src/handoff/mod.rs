//! Disaggregated serving on the wire: what the prefill and the decode engine are sent.
//!
//! Both get the client's body with a few fields changed and every other byte as it was: big integers, key order,
//! duplicate keys and escapes survive. A call for one token asks for no tool call either, which some vLLM versions cannot read from
//! one token (400 or 500); the tools stay, so the prompt is the same.
//!
//! | protocol | prefill call | decode call | order |
//! |---|---|---|---|
//! | vLLM, NIXL | one token, `kv_transfer_params` asking for remote decode | `kv_transfer_params` of the prefill answer, verbatim | decode waits |
//! | vLLM, Mooncake | one token, `transfer_id` | the same `transfer_id`, bootstrap address, engine id | decode may wait |
//! | SGLang | bootstrap host, port and room | the same three | together: waiting can deadlock |
//! | TensorRT-LLM | one token, `disaggregated_params` `context_only` | those of the answer, `generation_only`, and the prompt's token ids where the answer tells them | decode waits |
//! | header | none: a sidecar at the decode engine does it | `x-prefiller-host-port` | |
//!
//! Sources: vLLM's NIXL connector guide and Mooncake proxy, llm-d's sidecar connectors, SGLang's PD documentation,
//! TensorRT-LLM's `DisaggregatedParams` reference.

mod answer;
mod edit;
mod mooncake;
mod nixl;
mod sglang;
mod trtllm;

#[cfg(test)]
#[cfg(not(target_family = "wasm"))]
mod tests;

use bincode::{Decode, Encode};
use thiserror::Error;

use crate::openai::json::JsonError;

use edit::OneToken;

pub use answer::{FinishReason, PrefillAnswer};
pub use edit::string as json_string;
pub use sglang::bootstrap_room;

/// Header of the header-only hand-off: `host:port` of the prefill engine.
pub const PREFILLER_HEADER: &str = "x-prefiller-host-port";

/// How a pool's engines hand prefilled blocks over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Protocol {
    /// vLLM with the NIXL connector, pulling.
    Nixl,
    /// vLLM with the Mooncake connector.
    Mooncake,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    TensorRtLlm,
    /// A sidecar at the decode engine does it all.
    Header,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 5] = [Self::Nixl, Self::Mooncake, Self::Sglang, Self::TensorRtLlm, Self::Header];

    /// Its name in configuration and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nixl => "nixl",
            Self::Mooncake => "mooncake",
            Self::Sglang => "sglang",
            Self::TensorRtLlm => "trtllm",
            Self::Header => "header",
        }
    }

    /// Whether the decode call is made after the prefill call was answered. Mooncake's could be made before, which would gain
    /// nothing, as it waits for the prefill all the same, and could not be taken back when the prefill fails.
    pub fn decode_waits(self) -> bool {
        matches!(self, Self::Nixl | Self::Mooncake | Self::TensorRtLlm)
    }

    /// Whether the router makes the prefill call.
    pub fn calls_prefill(self) -> bool {
        self != Self::Header
    }

    fn one_token(self, transfer: &Transfer<'_>) -> OneToken {
        let trtllm = self == Self::TensorRtLlm;
        // The first token of TensorRT-LLM's context phase is the answer's: it has to obey everything the client asks for.
        OneToken { one_limit: trtllm, free_tools: !trtllm && !transfer.told_tools }
    }

    /// Whether decode engines serve requests that nobody prefilled for them. SGLang's refuse them.
    pub fn decode_serves_whole(self) -> bool {
        self != Self::Sglang
    }
}

/// What the router decides or knows for one hand-off.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// Unique number of this hand-off; for SGLang see [`bootstrap_room`].
    pub id: u64,
    /// Host of the prefill engine's bootstrap server.
    pub bootstrap_host: &'a str,
    /// Its port.
    pub bootstrap_port: u16,
    /// Data-parallel ranks of the prefill engine.
    pub ranks: u32,
    /// Engine id of the prefill engine, for Mooncake.
    pub engine_id: Option<&'a str>,
    /// Whether the engines' prompts may tell which tool the client demands, so that neither call may leave it out.
    pub told_tools: bool,
}

/// Why a body cannot be handed off.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HandoffError {
    /// The client's body is not a JSON object.
    #[error("request body: {0}")]
    Body(JsonError),
    /// The prefill engine's answer is not a JSON object.
    #[error("prefill answer: {0}")]
    Answer(JsonError),
    /// The prefill engine answered without what decode needs.
    #[error("prefill answer without `{field}`: the prefill worker is not configured to hand off ({hint})")]
    Missing {
        /// The field.
        field: &'static str,
        /// What to look at.
        hint: &'static str,
    },
    /// The pool does not say what the protocol needs.
    #[error("the prefill worker's `{0}` is not known")]
    Unknown(&'static str),
}

/// The body for the prefill engine; `None` when the protocol makes no prefill call.
///
/// # Errors
/// [`HandoffError::Body`] when the client's body cannot be edited.
pub fn prefill_body(protocol: Protocol, body: &[u8], transfer: &Transfer<'_>) -> Result<Option<Vec<u8>>, HandoffError> {
    match protocol {
        Protocol::Nixl => nixl::prefill(body, protocol.one_token(transfer)).map(Some),
        Protocol::Mooncake => mooncake::prefill(body, transfer, protocol.one_token(transfer)).map(Some),
        Protocol::Sglang => sglang::both(body, transfer).map(Some),
        Protocol::TensorRtLlm => trtllm::prefill(body, transfer, protocol.one_token(transfer)).map(Some),
        Protocol::Header => Ok(None),
    }
}

/// The body for the decode engine; `None` when it is the client's own. `answer` is the prefill engine's, for protocols whose decode waits.
///
/// # Errors
/// [`HandoffError`] when the body cannot be edited or the answer lacks what decode needs.
pub fn decode_body(
    protocol: Protocol,
    body: &[u8],
    transfer: &Transfer<'_>,
    answer: Option<&PrefillAnswer<'_>>,
) -> Result<Option<Vec<u8>>, HandoffError> {
    match protocol {
        Protocol::Nixl => nixl::decode(body, answer).map(Some),
        Protocol::Mooncake => mooncake::decode(body, transfer).map(Some),
        Protocol::Sglang => sglang::both(body, transfer).map(Some),
        Protocol::TensorRtLlm => trtllm::decode(body, answer).map(Some),
        Protocol::Header => Ok(None),
    }
}

/// A decode body that only takes the blocks over and generates one token, for a client that has gone.
///
/// # Errors
/// [`HandoffError::Body`] when `decode_body` is not what [`decode_body`] made.
pub fn release_body(protocol: Protocol, decode_body: &[u8], transfer: &Transfer<'_>) -> Result<Vec<u8>, HandoffError> {
    edit::one_token(decode_body, protocol.one_token(transfer), Vec::new())
}
