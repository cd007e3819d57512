//! What a stream connects to, and its bounds.

use std::time::Duration;

/// Where one (worker, rank) publishes its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// `tcp://host:port` or `ipc:///path` of the PUB socket, rank offset already applied.
    pub endpoint: String,
    /// The replay ROUTER, when the engine has one.
    pub replay_endpoint: Option<String>,
    /// Topic to subscribe to; empty takes every topic.
    pub topic: String,
    /// Bind and let the engine connect, for engines whose endpoint names an address instead of `*`.
    pub bind: bool,
    /// Bounds.
    pub limits: StreamLimits,
}

impl StreamSpec {
    /// A stream that connects to `endpoint`, takes every topic and has no replay.
    pub fn connect(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            replay_endpoint: None,
            topic: String::new(),
            bind: false,
            limits: StreamLimits::default(),
        }
    }
}

/// Bounds of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Live batches waiting for ingest; more are dropped and counted, and ingest sees a gap.
    pub backlog_messages: usize,
    /// Bytes of live batches waiting for ingest.
    pub backlog_bytes: usize,
    /// Largest frame accepted; a peer that announces more is disconnected.
    pub frame_bytes: usize,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Longest pause between attempts to connect; the first is a twentieth of it.
    pub reconnect_max: Duration,
    /// Silence after which an engine that understands pings is asked whether it is still there.
    pub ping_after: Duration,
    /// Silence after a ping at which the connection is given up.
    pub ping_patience: Duration,
    /// A replay without its end marker ends after this much silence.
    pub replay_silence: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            backlog_messages: 65_536,
            backlog_bytes: 256 << 20,
            frame_bytes: 64 << 20,
            connect_timeout: Duration::from_secs(5),
            reconnect_max: Duration::from_secs(2),
            ping_after: Duration::from_secs(5),
            ping_patience: Duration::from_secs(5),
            replay_silence: Duration::from_secs(2),
        }
    }
}
