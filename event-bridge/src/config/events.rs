//! Where events come from: pool-wide defaults, what a worker overrides, and the endpoint of each rank.

use std::fmt;

use super::endpoint::WorkerAddress;
use super::error::Problem;
use super::pool::EngineKind;
use super::raw::{RawEventSource, RawEvents, RawGapPolicy, RawParityPolicy, RawWorkerEvents};
use crate::ingest::{GapPolicy, ParityPolicy};

/// Port vLLM and SGLang publish on unless told otherwise.
const DEFAULT_PORT: u16 = 5557;

/// How the events of one rank reach the bridge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventFeed {
    /// From its socket.
    Socket(EventStream),
    /// Fetched by HTTP out of the worker's buffer, which every answer empties (TensorRT-LLM).
    Polled {
        /// `http://host:port/path`, one for all ranks of the worker.
        url: String,
    },
}

/// Where and how one rank publishes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventStream {
    /// Endpoint of the PUB socket, `tcp://host:port` or `ipc://path`, rank offset included.
    pub endpoint: String,
    /// Endpoint of the replay ROUTER; `None`: no replay.
    pub replay: Option<String>,
    /// Topic to subscribe to; empty takes every topic.
    pub topic: String,
    /// Bind instead of connecting, for engines whose PUB connects.
    pub bind: bool,
}

/// Port of a socket on the worker's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRule {
    /// The same port on every worker.
    Fixed(u16),
    /// The worker's HTTP port plus this.
    Offset(i32),
}

/// Who says where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrigin {
    /// The configuration, by ports.
    Ports,
    /// The engine: vLLM's `/kv_event_sources`, SGLang's `/server_info`.
    Asked,
    /// TensorRT-LLM's `/kv_cache_events` has them itself.
    Polled,
}

/// What one worker's ranks are fed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerFeed {
    /// Nothing.
    None,
    /// What the engine will say.
    Asked,
    /// The same URL for every rank.
    Polled(String),
    /// Stream of rank 0.
    Socket(EventStream),
}

/// Pool-wide event settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDefaults {
    /// Whether workers publish events.
    pub enabled: bool,
    /// Who says where.
    pub origin: EventOrigin,
    /// Port of the PUB socket of rank 0.
    pub port: PortRule,
    /// Port of the replay socket of rank 0; `None`: no replay.
    pub replay: Option<PortRule>,
    /// Topic.
    pub topic: String,
    /// What happens to a target's index when batches are lost for good.
    pub gap_policy: GapPolicy,
    /// What comes of prompts that a target answered and does not announce.
    pub parity_policy: ParityPolicy,
}

impl EventDefaults {
    pub(super) fn resolve(raw: RawEvents, engine: EngineKind, field: &str) -> Result<Self, Problem> {
        let RawEvents {
            enabled,
            source,
            port,
            port_offset,
            replay_port,
            replay_port_offset,
            topic,
            gap_policy,
            parity,
        } = raw;
        let ports = [port.is_some(), port_offset.is_some(), replay_port.is_some(), replay_port_offset.is_some()];
        let has_sockets = ports.contains(&true) || topic.is_some();
        let origin = match (source, engine) {
            (Some(RawEventSource::Engine), _) if has_sockets => {
                return Err(Problem::new(
                    format!("{field}.source"),
                    "the engines are asked where they publish, so ports and topic have no effect",
                    "leave them out, or set source: ports",
                ));
            }
            (Some(RawEventSource::Engine), EngineKind::Vllm | EngineKind::Sglang) => EventOrigin::Asked,
            (Some(RawEventSource::Engine), EngineKind::Trtllm) => EventOrigin::Polled,
            (None, EngineKind::Trtllm) if !has_sockets => EventOrigin::Polled,
            (None | Some(RawEventSource::Ports), _) => EventOrigin::Ports,
        };
        Ok(Self {
            enabled: enabled.unwrap_or(true),
            origin,
            port: port_rule(port, port_offset, &format!("{field}.port"))?.unwrap_or(PortRule::Fixed(DEFAULT_PORT)),
            replay: port_rule(replay_port, replay_port_offset, &format!("{field}.replay_port"))?,
            topic: topic.unwrap_or_default(),
            gap_policy: match gap_policy {
                None | Some(RawGapPolicy::Clear) => GapPolicy::Clear,
                Some(RawGapPolicy::Keep) => GapPolicy::Keep,
            },
            parity_policy: match parity {
                None | Some(RawParityPolicy::Enforce) => ParityPolicy::Enforce,
                Some(RawParityPolicy::Report) => ParityPolicy::Report,
            },
        })
    }

    /// What a worker's ranks are fed by.
    pub(super) fn for_worker(
        &self,
        raw: RawWorkerEvents,
        address: WorkerAddress,
        field: &str,
    ) -> Result<WorkerFeed, Problem> {
        let RawWorkerEvents { enabled, endpoint, replay, topic, bind } = raw;
        if !enabled.unwrap_or(self.enabled) {
            return Ok(WorkerFeed::None);
        }
        if endpoint.is_none() && self.origin != EventOrigin::Ports {
            if replay.is_some() || topic.is_some() || bind.is_some() {
                return Err(Problem::new(
                    field,
                    "replay, topic and bind have no effect while the engine says where it publishes",
                    "give this worker an endpoint too, or leave them out",
                ));
            }
            return Ok(match self.origin {
                EventOrigin::Polled => WorkerFeed::Polled(format!("http://{address}/kv_cache_events")),
                EventOrigin::Asked | EventOrigin::Ports => WorkerFeed::Asked,
            });
        }
        // A worker with an endpoint of its own has a replay socket of its own or none: the pool's rule would
        // point at whatever happens to listen there.
        let replay = match (replay, &endpoint) {
            (Some(replay), _) => Some(checked(replay, &format!("{field}.replay"))?),
            (None, Some(_)) => None,
            (None, None) => self.replay.map(|rule| rule.endpoint(address, &format!("{field}.replay"))).transpose()?,
        };
        let endpoint = match endpoint {
            Some(endpoint) => checked(endpoint, &format!("{field}.endpoint"))?,
            None => self.port.endpoint(address, &format!("{field}.endpoint"))?,
        };
        let topic = topic.unwrap_or_else(|| self.topic.clone());
        Ok(WorkerFeed::Socket(EventStream { endpoint, replay, topic, bind: bind.unwrap_or(false) }))
    }
}

impl EventStream {
    /// The stream of data-parallel rank `rank`: engines add the rank to the port of both sockets.
    pub(super) fn for_rank(&self, rank: u32) -> Result<Self, String> {
        let Self { endpoint, replay, topic, bind } = self;
        Ok(Self {
            endpoint: add_to_port(endpoint, rank)?,
            replay: replay.as_deref().map(|replay| add_to_port(replay, rank)).transpose()?,
            topic: topic.clone(),
            bind: *bind,
        })
    }
}

impl PortRule {
    fn endpoint(self, address: WorkerAddress, field: &str) -> Result<String, Problem> {
        let socket = address.socket();
        let port = match self {
            Self::Fixed(port) => Some(port),
            Self::Offset(offset) => i32::from(socket.port())
                .checked_add(offset)
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port != 0),
        };
        let Some(port) = port else {
            return Err(Problem::new(
                field,
                format!("the pool's {self} leads outside 1 to 65535 for {address}"),
                "give this worker an endpoint of its own, or change the offset",
            ));
        };
        let mut socket = socket;
        socket.set_port(port);
        Ok(format!("tcp://{socket}"))
    }
}

impl fmt::Display for PortRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(port) => write!(f, "port {port}"),
            Self::Offset(offset) => write!(f, "port offset {offset:+}"),
        }
    }
}

fn port_rule(port: Option<u16>, offset: Option<i32>, field: &str) -> Result<Option<PortRule>, Problem> {
    match (port, offset) {
        (Some(_), Some(_)) => Err(Problem::new(field, "both a port and a port offset are given", "keep one of them")),
        (Some(0), None) => Err(Problem::new(field, "port 0 cannot be connected to", "give the engine's port")),
        (Some(port), None) => Ok(Some(PortRule::Fixed(port))),
        (None, Some(offset)) => Ok(Some(PortRule::Offset(offset))),
        (None, None) => Ok(None),
    }
}

fn checked(endpoint: String, field: &str) -> Result<String, Problem> {
    let good = match endpoint.split_once("://") {
        Some(("tcp", rest)) => rest
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)),
        Some(("ipc", path)) => !path.is_empty(),
        _ => false,
    };
    if good {
        return Ok(endpoint);
    }
    Err(Problem::new(field, format!("`{endpoint}` is no event endpoint"), "write tcp://host:port or ipc:///path"))
}

fn add_to_port(endpoint: &str, rank: u32) -> Result<String, String> {
    if rank == 0 {
        return Ok(endpoint.to_owned());
    }
    let tcp = endpoint.starts_with("tcp://").then(|| endpoint.rsplit_once(':')).flatten();
    let Some((host, port)) = tcp else {
        return Err(format!("`{endpoint}` has no port that rank {rank} could be added to"));
    };
    match port.parse::<u32>().ok().and_then(|port| port.checked_add(rank)).and_then(|port| u16::try_from(port).ok()) {
        Some(port) => Ok(format!("{host}:{port}")),
        None => Err(format!("rank {rank} leads past port 65535 from `{endpoint}`")),
    }
}
