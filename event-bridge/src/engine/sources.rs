//! Where an engine says that it publishes: vLLM's `GET /kv_event_sources` (0.31 and later) and SGLang's `GET /server_info`.
//! Answers to endpoints, nothing more; whoever asks substitutes nothing and fetches nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

/// The event sockets of one data-parallel rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// The rank.
    pub rank: u32,
    /// `tcp://host:port` or `ipc:///path` of its PUB.
    pub endpoint: String,
    /// Its replay ROUTER.
    pub replay: Option<String>,
    /// Topic it publishes under.
    pub topic: String,
    /// Its PUB connects to us, so this endpoint, a wildcard, is to be bound.
    pub bind: bool,
    /// Engine page size in tokens, where it is said.
    pub page_tokens: Option<u32>,
}

/// Why an answer names no event sockets.
#[derive(Debug, Error)]
pub enum SourcesError {
    /// Not the JSON it should be.
    #[error("not an answer that names event sources: {0}")]
    Json(#[from] serde_json::Error),
    /// Events are off.
    #[error("the engine publishes no events: start it with --kv-events-config and \"publisher\": \"zmq\"")]
    Disabled,
    /// An endpoint that cannot be reached from another process or names no port.
    #[error("rank {rank}: endpoint {endpoint:?} cannot be followed from another process")]
    Endpoint {
        /// The rank.
        rank: u32,
        /// What it says.
        endpoint: String,
    },
    /// A port that the rank pushes beyond 65535.
    #[error("rank {0}: its port would be above 65535")]
    Port(u32),
}

/// Most ranks of one worker.
const MAX_RANKS: u32 = 1024;

#[derive(Deserialize)]
struct VllmSource {
    #[serde(default)]
    enable_kv_cache_events: bool,
    #[serde(default)]
    publisher: Option<String>,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    replay_endpoint: Option<String>,
    #[serde(default)]
    topic: Option<String>,
}

/// Sources of a vLLM by its `/kv_event_sources`. `host` is the worker's, and takes the place of wildcards. Ports carry
/// the rank already.
///
/// # Errors
/// [`SourcesError`].
pub fn vllm_sources(body: &[u8], host: &str) -> Result<Vec<EventSource>, SourcesError> {
    let sources: BTreeMap<u32, VllmSource> = serde_json::from_slice(body)?;
    let mut all = Vec::new();
    for (rank, source) in sources {
        let VllmSource { enable_kv_cache_events, publisher, endpoint, replay_endpoint, topic } = source;
        let Some(endpoint) = endpoint.filter(|_| enable_kv_cache_events && publisher.as_deref() == Some("zmq")) else {
            continue;
        };
        let replay = replay_endpoint.map(|endpoint| reachable(rank, &endpoint, host)).transpose()?;
        // Its publisher binds wildcards and paths, and what the system chose for it on its own address; it connects to
        // any other.
        let (reached, binds) = reachable(rank, &endpoint, host)?;
        // The name it connects to may be that of a service in front of us; the port is ours.
        let port = reached.rsplit_once(':').map_or("", |(_, port)| port);
        all.push(EventSource {
            rank,
            endpoint: if binds { reached } else { format!("tcp://*:{port}") },
            replay: replay.map(|(replay, _)| replay),
            topic: topic.unwrap_or_default(),
            bind: !binds,
            page_tokens: None,
        });
    }
    if all.is_empty() { Err(SourcesError::Disabled) } else { Ok(all) }
}

/// An endpoint as it is to be connected to, and whether its owner binds it.
fn reachable(rank: u32, endpoint: &str, host: &str) -> Result<(String, bool), SourcesError> {
    let refused = || SourcesError::Endpoint { rank, endpoint: endpoint.to_owned() };
    if endpoint.starts_with("ipc://") {
        return Ok((endpoint.to_owned(), true));
    }
    let address = endpoint.strip_prefix("tcp://").ok_or_else(refused)?;
    let (named, port) = address.rsplit_once(':').ok_or_else(refused)?;
    let port: u16 = port.parse().map_err(|_| refused())?;
    if port == 0 {
        return Err(refused());
    }
    let named = bare(named);
    // It binds whatever has `*` or `::` in it, an address as well, and connects to 0.0.0.0.
    let binds = named == "*" || named.contains("::") || named == bare(host);
    Ok((tcp(if is_wildcard(named) { host } else { named }, port), binds))
}

/// Whether a host means every interface of the machine that binds it. To reach it, another name has to be given: connecting to this one
/// would reach ourselves.
pub(crate) fn is_wildcard(host: &str) -> bool {
    matches!(host, "*" | "::" | "0.0.0.0")
}

/// An address without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn tcp(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("tcp://[{host}]:{port}")
    } else {
        format!("tcp://{host}:{port}")
    }
}

#[derive(Deserialize)]
struct ServerInfo {
    #[serde(default)]
    kv_events: Option<SglangEvents>,
}

#[derive(Deserialize)]
struct SglangEvents {
    #[serde(default)]
    publisher: Option<String>,
    #[serde(default)]
    endpoint_host: Option<String>,
    #[serde(default)]
    endpoint_port_base: Option<u16>,
    #[serde(default)]
    replay_endpoint_port_base: Option<u16>,
    #[serde(default)]
    topic: Option<String>,
    #[serde(default)]
    block_size: Option<u32>,
    #[serde(default)]
    dp_size: Option<u32>,
    #[serde(default)]
    bind: Option<bool>,
}

/// Sources of an SGLang by its `/server_info`. `host` is the worker's, and takes the place of wildcards. The port of
/// rank `r` is the base plus `r`. Its publisher binds wildcards and addresses with `::`, unless `bind` says otherwise, and
/// connects to any other host, which is then ours; replays it always binds.
///
/// # Errors
/// [`SourcesError`].
pub fn sglang_sources(body: &[u8], host: &str) -> Result<Vec<EventSource>, SourcesError> {
    let info: ServerInfo = serde_json::from_slice(body)?;
    let events = info.kv_events.filter(|events| events.publisher.as_deref() == Some("zmq"));
    let events = events.ok_or(SourcesError::Disabled)?;
    let base = events.endpoint_port_base.ok_or(SourcesError::Disabled)?;
    let named = bare(events.endpoint_host.as_deref().unwrap_or("*"));
    let usually_binds = is_wildcard(named) || named.contains("::") || named == bare(host);
    let binds = events.bind.unwrap_or(usually_binds);
    let published_at = match (binds, is_wildcard(named)) {
        // The name it connects to may be that of a service in front of us; the port is ours.
        (false, _) => "*",
        (true, true) => host,
        (true, false) => named,
    };
    let replayed_at = if binds { published_at } else { host };
    let at = |host: &str, base: u16, rank: u32| {
        let port = u16::try_from(rank).ok().and_then(|rank| base.checked_add(rank));
        port.map(|port| tcp(host, port)).ok_or(SourcesError::Port(rank))
    };
    let source = |rank: u32| {
        Ok(EventSource {
            rank,
            endpoint: at(published_at, base, rank)?,
            replay: events.replay_endpoint_port_base.map(|base| at(replayed_at, base, rank)).transpose()?,
            topic: events.topic.clone().unwrap_or_default(),
            bind: !binds,
            page_tokens: events.block_size,
        })
    };
    (0..events.dp_size.unwrap_or(1).clamp(1, MAX_RANKS)).map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_by_rank_with_wildcards_replaced() {
        let body = br#"{
            "0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",
                  "replay_endpoint": "tcp://*:5657", "buffer_steps": 10000, "hwm": 100000, "max_queue_size": 100000, "topic": "kv"},
            "1": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://10.0.0.7:41234",
                  "replay_endpoint": null, "topic": ""},
            "2": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://10.9.9.9:5559"},
            "3": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "ipc:///run/kv"}}"#;
        let sources = vllm_sources(body, "10.0.0.7").unwrap();
        let short: Vec<_> =
            sources.iter().map(|s| (s.rank, s.endpoint.as_str(), s.replay.as_deref(), s.bind)).collect();
        assert_eq!(
            short,
            [
                (0, "tcp://10.0.0.7:5557", Some("tcp://10.0.0.7:5657"), false),
                (1, "tcp://10.0.0.7:41234", None, false),
                (2, "tcp://*:5559", None, true),
                (3, "ipc:///run/kv", None, false),
            ]
        );
        assert_eq!(sources[0].topic, "kv");
        let six = br#"{"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://[::]:5557"}}"#;
        assert_eq!(vllm_sources(six, "fd00::7").unwrap()[0].endpoint, "tcp://[fd00::7]:5557");
        // A replay is always bound, on every interface too.
        let any = br#"{"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",
            "replay_endpoint": "tcp://0.0.0.0:5657"}}"#;
        assert_eq!(vllm_sources(any, "10.0.0.7").unwrap()[0].replay.as_deref(), Some("tcp://10.0.0.7:5657"));
    }

    #[test]
    fn sglang_by_base_and_rank() {
        let body =
            br#"{"model_path": "m", "kv_events": {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557,
            "topic": "kv-events", "block_size": 1, "dp_size": 2, "replay_endpoint_port_base": 5657}}"#;
        let sources = sglang_sources(body, "worker-3").unwrap();
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[1].endpoint, "tcp://worker-3:5558");
        assert_eq!(sources[1].replay.as_deref(), Some("tcp://worker-3:5658"));
        assert_eq!((sources[1].topic.as_str(), sources[1].page_tokens), ("kv-events", Some(1)));
    }

    #[test]
    fn a_named_host_is_one_that_sglang_connects_to() {
        let asked = |host: &str, more: &str| {
            let body = format!(
                r#"{{"kv_events": {{"publisher": "zmq", "endpoint_host": "{host}", "endpoint_port_base": 5557,
                "replay_endpoint_port_base": 5657, "dp_size": 2{more}}}}}"#
            );
            let EventSource { endpoint, replay, bind, .. } =
                sglang_sources(body.as_bytes(), "10.0.0.7").unwrap().remove(1);
            (endpoint, replay.unwrap(), bind)
        };
        let at = |endpoint: &str, bind| (endpoint.to_owned(), "tcp://10.0.0.7:5658".to_owned(), bind);
        assert_eq!(asked("kv-bridge.svc", ""), at("tcp://*:5558", true));
        for host in ["*", "0.0.0.0", "::", "[::]", "10.0.0.7"] {
            assert_eq!(asked(host, ""), at("tcp://10.0.0.7:5558", false), "{host}");
        }
        assert_eq!(asked("0.0.0.0", r#", "bind": false"#), at("tcp://*:5558", true));
        let bound = ("tcp://10.9.9.9:5558".to_owned(), "tcp://10.9.9.9:5658".to_owned(), false);
        assert_eq!(asked("10.9.9.9", r#", "bind": true"#), bound);
    }

    #[test]
    fn engines_without_events_say_what_to_do() {
        assert!(vllm_sources(b"{}", "h").unwrap_err().to_string().contains("--kv-events-config"));
        let null = br#"{"0": {"enable_kv_cache_events": false, "publisher": "null", "endpoint": "tcp://*:1"}}"#;
        assert!(matches!(vllm_sources(null, "h"), Err(SourcesError::Disabled)));
        assert!(matches!(sglang_sources(b"{}", "h"), Err(SourcesError::Disabled)));
        assert!(matches!(vllm_sources(b"[]", "h"), Err(SourcesError::Json(_))));
        let inproc = br#"{"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "inproc://x"}}"#;
        assert!(matches!(vllm_sources(inproc, "h"), Err(SourcesError::Endpoint { rank: 0, .. })));
        let high = br#"{"kv_events": {"publisher": "zmq", "endpoint_port_base": 65535, "dp_size": 2}}"#;
        assert!(matches!(sglang_sources(high, "h"), Err(SourcesError::Port(1))));
    }
}
