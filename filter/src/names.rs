//! Names shared with Envoy's configuration and with clients.

use kv_routing::handoff::PREFILLER_HEADER;

/// Ordered `ip:port` list that Envoy's `override_host` policy obeys.
pub const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Data-parallel rank the engine should use.
pub const RANK: &str = "x-data-parallel-rank";
/// Name of the model or adapter the request was routed by.
pub const MODEL: &str = "x-gateway-model-name";
/// Protocol of a decode call whose prompt was prefilled elsewhere. What was handed over can be fetched once, so such a call must not be repeated
/// when it may have reached an engine: Envoy's routes can match on it.
pub const HANDOFF: &str = "x-kv-router-handoff";
/// Response header of an answer that says which phase of a hand-over failed: the request may be repeated at once, and is handed over anew.
pub const AGAIN: &str = "x-kv-router-again";
/// Which attempt at a request this is, where Envoy says so.
pub const ATTEMPT: &str = "x-envoy-attempt-count";
/// How often Envoy repeats a request, instead of what its route says.
pub const RETRIES: &str = "x-envoy-max-retries";
/// Request headers only the filter may set: a client's copy is removed, whatever the path.
pub const OWN_HEADERS: [&str; 5] = [DESTINATION, RANK, MODEL, HANDOFF, PREFILLER_HEADER];
/// Response header with the decision, when configured.
pub const EXPLANATION: &str = "x-kv-router-decision";
/// Filter state with the decision: `%FILTER_STATE(wasm.kv_decision:PLAIN)%`.
pub const DECISION_STATE: &str = "kv_decision";
/// Filter state with the cached tokens the engine reported: `%FILTER_STATE(wasm.kv_cached_tokens:PLAIN)%`.
pub const CACHED_TOKENS_STATE: &str = "kv_cached_tokens";
/// Beginning of the names of shared queues by which VMs call their own root contexts; a random number follows.
pub const ROOT_QUEUE: &str = "kv/root/";
/// Path of the ingest listener.
pub const PUSH_PATH: &str = "/kv/v1/push";
