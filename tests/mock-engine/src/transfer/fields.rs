//! The hand-off fields of a request body, per protocol.

use serde_json::{Map, Value};

use super::ids::unseal;
use super::{PdProtocol, Role};

/// What one prompt of a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandOff {
    /// Nothing: plain serving.
    None,
    /// Compute the prompt and hold its blocks under `key`.
    Hold {
        /// Name the decode side will use; `None` where the engine makes it up.
        key: Option<String>,
        /// Do not compute before the decode side has connected (SGLang).
        wait_for_decode: bool,
        /// Number the client gave (TensorRT-LLM), echoed in the answer.
        number: Option<u64>,
    },
    /// Fetch the prompt's blocks.
    Fetch(Fetch),
}

/// Where blocks are, and what they must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// `host:port` of the side channel.
    pub address: String,
    /// Name they are held under.
    pub key: String,
    /// Engine that must hold them, where the protocol names it.
    pub engine_id: Option<String>,
    /// The blocks, where the protocol names them.
    pub block_ids: Option<Vec<u32>>,
    /// The number the client gave for the prefill (TensorRT-LLM).
    pub number: Option<u64>,
    /// The first answer token, where the protocol carries it.
    pub first_token: Option<u32>,
    /// Whether the prefill may still be under way, or not even have begun.
    pub may_be_early: bool,
}

/// Hand-off fields that cannot be served (400).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandOffError {
    /// A field that is missing or of the wrong type.
    #[error("{field}: {reason}")]
    Field {
        /// Path of the field.
        field: &'static str,
        /// What it must be.
        reason: &'static str,
    },
    /// A field of another engine's protocol: a router that mixes them up must notice.
    #[error("`{field}` is not a field of this engine's hand-off protocol ({protocol:?})")]
    Foreign {
        /// The field.
        field: &'static str,
        /// The engine's protocol.
        protocol: PdProtocol,
    },
    /// Asked of the wrong side.
    #[error("a {role:?} engine cannot {what}")]
    Role {
        /// The engine's role.
        role: Role,
        /// What it was asked for.
        what: &'static str,
    },
}

const FIELDS: [(&str, &[PdProtocol]); 5] = [
    ("kv_transfer_params", &[PdProtocol::Nixl, PdProtocol::Mooncake]),
    ("bootstrap_host", &[PdProtocol::Sglang]),
    ("bootstrap_port", &[PdProtocol::Sglang]),
    ("bootstrap_room", &[PdProtocol::Sglang]),
    ("disaggregated_params", &[PdProtocol::Trtllm]),
];

/// Reads the hand-off of each of `prompts` prompts.
///
/// # Errors
/// When a field is malformed, belongs to another protocol, or asks the wrong side.
pub fn parse(
    protocol: PdProtocol,
    role: Role,
    body: &Map<String, Value>,
    prompts: usize,
) -> Result<Vec<HandOff>, HandOffError> {
    for (field, owners) in FIELDS {
        if body.get(field).is_some_and(|value| !value.is_null()) && !owners.contains(&protocol) {
            return Err(HandOffError::Foreign { field, protocol });
        }
    }
    let hand_offs = match protocol {
        PdProtocol::Nixl | PdProtocol::Mooncake => vec![vllm(protocol, body.get("kv_transfer_params"))?],
        PdProtocol::Sglang => sglang(role, body, prompts)?,
        PdProtocol::Trtllm => vec![trtllm(body.get("disaggregated_params"))?],
    };
    for hand_off in &hand_offs {
        match (hand_off, role) {
            (HandOff::Hold { .. }, Role::Decode) => {
                return Err(HandOffError::Role { role, what: "hold blocks for another engine" });
            }
            (HandOff::Fetch(_), Role::Prefill) => {
                return Err(HandOffError::Role { role, what: "fetch blocks from another engine" });
            }
            _ => {}
        }
    }
    if hand_offs.iter().all(|hand_off| *hand_off == HandOff::None) {
        return Ok(vec![HandOff::None; prompts]);
    }
    if hand_offs.len() != prompts {
        return Err(wrong("prompt", "hand-off parameters and prompts differ in number"));
    }
    Ok(hand_offs)
}

fn wrong(field: &'static str, reason: &'static str) -> HandOffError {
    HandOffError::Field { field, reason }
}

fn flag(params: &Map<String, Value>, name: &str) -> bool {
    params.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text(params: &Map<String, Value>, name: &str) -> Option<String> {
    params.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn port(params: &Map<String, Value>, name: &str) -> Option<u16> {
    params.get(name).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok())
}

fn vllm(protocol: PdProtocol, params: Option<&Value>) -> Result<HandOff, HandOffError> {
    let params = match params {
        None | Some(Value::Null) => return Ok(HandOff::None),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(wrong("kv_transfer_params", "must be an object")),
    };
    match (flag(params, "do_remote_decode"), flag(params, "do_remote_prefill")) {
        (false, false) => Ok(HandOff::None),
        (true, true) => Err(wrong("kv_transfer_params", "do_remote_decode and do_remote_prefill exclude each other")),
        (true, false) => {
            let key = text(params, "transfer_id");
            if protocol == PdProtocol::Mooncake && key.is_none() {
                return Err(wrong("kv_transfer_params.transfer_id", "must be a string"));
            }
            let key = key.filter(|_| protocol == PdProtocol::Mooncake);
            Ok(HandOff::Hold { key, wait_for_decode: false, number: None })
        }
        (false, true) if protocol == PdProtocol::Mooncake => mooncake_fetch(params).map(HandOff::Fetch),
        (false, true) => nixl_fetch(params).map(HandOff::Fetch),
    }
}

fn nixl_fetch(params: &Map<String, Value>) -> Result<Fetch, HandOffError> {
    let host = text(params, "remote_host").ok_or(wrong("kv_transfer_params.remote_host", "must be a string"))?;
    let port = port(params, "remote_port").ok_or(wrong("kv_transfer_params.remote_port", "must be a port"))?;
    let block_ids = params.get("remote_block_ids").and_then(block_ids);
    Ok(Fetch {
        address: format!("{host}:{port}"),
        key: text(params, "remote_request_id")
            .ok_or(wrong("kv_transfer_params.remote_request_id", "must be a string"))?,
        engine_id: Some(
            text(params, "remote_engine_id").ok_or(wrong("kv_transfer_params.remote_engine_id", "must be a string"))?,
        ),
        block_ids: Some(
            block_ids.ok_or(wrong("kv_transfer_params.remote_block_ids", "must be one list of block ids per group"))?,
        ),
        number: None,
        first_token: None,
        may_be_early: false,
    })
}

/// One list per cache group; there is one group.
fn block_ids(value: &Value) -> Option<Vec<u32>> {
    let [group] = value.as_array()?.as_slice() else { return None };
    group.as_array()?.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
}

fn mooncake_fetch(params: &Map<String, Value>) -> Result<Fetch, HandOffError> {
    let address = text(params, "remote_bootstrap_addr")
        .and_then(|url| url.strip_prefix("http://").map(str::to_owned))
        .ok_or(wrong("kv_transfer_params.remote_bootstrap_addr", "must be http://host:port"))?;
    Ok(Fetch {
        address,
        key: text(params, "transfer_id").ok_or(wrong("kv_transfer_params.transfer_id", "must be a string"))?,
        engine_id: Some(
            text(params, "remote_engine_id").ok_or(wrong("kv_transfer_params.remote_engine_id", "must be a string"))?,
        ),
        block_ids: None,
        number: None,
        first_token: None,
        may_be_early: true,
    })
}

/// Single values for one prompt, arrays for a batch. Which side it is depends on the engine's role alone.
fn sglang(role: Role, body: &Map<String, Value>, prompts: usize) -> Result<Vec<HandOff>, HandOffError> {
    if role == Role::Both {
        // Disaggregation is off: the fields mean nothing.
        return Ok(vec![HandOff::None; prompts]);
    }
    let rooms = spread(body, "bootstrap_room", prompts)
        .and_then(|rooms| rooms.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>())
        .ok_or(wrong("bootstrap_room", "Disaggregated request received without bootstrap room id."))?;
    if rooms.iter().any(|room| i64::try_from(*room).is_err()) {
        return Err(wrong("bootstrap_room", "must fit 63 bits"));
    }
    if role == Role::Prefill {
        let hold = |room: u64| HandOff::Hold { key: Some(room.to_string()), wait_for_decode: true, number: None };
        return Ok(rooms.into_iter().map(hold).collect());
    }
    let hosts = spread(body, "bootstrap_host", prompts)
        .and_then(|hosts| hosts.iter().map(|host| host.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>())
        .ok_or(wrong("bootstrap_host", "must be a string for each prompt"))?;
    let ports = spread(body, "bootstrap_port", prompts)
        .and_then(|ports| ports.iter().map(|port| u16::try_from(port.as_u64()?).ok()).collect::<Option<Vec<u16>>>())
        .ok_or(wrong("bootstrap_port", "must be a port for each prompt"))?;
    Ok(rooms
        .into_iter()
        .zip(hosts.into_iter().zip(ports))
        .map(|(room, (host, port))| {
            HandOff::Fetch(Fetch {
                address: format!("{host}:{port}"),
                key: room.to_string(),
                engine_id: None,
                block_ids: None,
                number: None,
                first_token: None,
                may_be_early: true,
            })
        })
        .collect())
}

/// The values of a field that is an array exactly when there are several prompts.
fn spread(body: &Map<String, Value>, field: &str, prompts: usize) -> Option<Vec<Value>> {
    match body.get(field)? {
        Value::Array(values) if values.len() == prompts => Some(values.clone()),
        Value::Array(_) | Value::Null => None,
        value if prompts == 1 => Some(vec![value.clone()]),
        _ => None,
    }
}

fn trtllm(params: Option<&Value>) -> Result<HandOff, HandOffError> {
    let params = match params {
        None | Some(Value::Null) => return Ok(HandOff::None),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(wrong("disaggregated_params", "must be an object")),
    };
    let number = match params.get("disagg_request_id") {
        None | Some(Value::Null) => None,
        Some(value) => Some(
            value.as_u64().ok_or(wrong("disaggregated_params.disagg_request_id", "must be an integer below 2^64"))?,
        ),
    };
    match params.get("request_type").and_then(Value::as_str) {
        Some("context_only") => Ok(HandOff::Hold { key: None, wait_for_decode: false, number }),
        Some("generation_only") => generation_only(params, number).map(HandOff::Fetch),
        Some("context_and_generation") => Ok(HandOff::None),
        _ => Err(wrong("disaggregated_params.request_type", "must be context_only or generation_only")),
    }
}

fn generation_only(params: &Map<String, Value>, number: Option<u64>) -> Result<Fetch, HandOffError> {
    let key = params
        .get("ctx_request_id")
        .and_then(Value::as_u64)
        .ok_or(wrong("disaggregated_params.ctx_request_id", "must be an integer below 2^64"))?;
    let address = text(params, "encoded_opaque_state")
        .and_then(|state| unseal(&state))
        .ok_or(wrong("disaggregated_params.encoded_opaque_state", "is not what a context engine answered"))?;
    let first = params.get("first_gen_tokens").and_then(Value::as_array).and_then(|tokens| tokens.first());
    let first = first.and_then(Value::as_u64).and_then(|token| u32::try_from(token).ok());
    Ok(Fetch {
        address,
        key: key.to_string(),
        engine_id: None,
        block_ids: None,
        number,
        first_token: Some(
            first.ok_or(wrong("disaggregated_params.first_gen_tokens", "must hold the first answer token"))?,
        ),
        may_be_early: false,
    })
}
