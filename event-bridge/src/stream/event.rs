//! What a stream reports.

use std::time::Instant;

use bytes::Bytes;

/// Names one replay request, so that answers to an abandoned one are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplayId(pub u64);

/// One thing that happened on a stream. Events of one connection arrive in order; replayed and live batches have no
/// mutual order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// Subscribed. Whatever the engine published before is not announced by itself.
    Connected,
    /// The connection ended; everything received on it has been reported before this.
    Disconnected {
        /// For the log.
        reason: String,
    },
    /// A batch as it was published.
    Live {
        /// Its sequence number.
        seq: u64,
        /// Its msgpack bytes.
        payload: Bytes,
        /// When the socket gave it to us.
        received: Instant,
    },
    /// A live message that is not (topic, sequence, payload), or that found no room.
    Undecodable {
        /// What is wrong with it.
        reason: String,
    },
    /// A bound socket's new connection comes from another address than the one before. After [`StreamEvent::Connected`].
    PeerChanged {
        /// The new address.
        peer: std::net::IpAddr,
    },
    /// An answer of a polled engine did not arrive whole, and the engine does not keep what was in it. Not connected until
    /// [`StreamEvent::Connected`].
    AnswerLost {
        /// For the log.
        reason: String,
    },
    /// A batch out of the engine's replay buffer.
    Replayed {
        /// The request it answers.
        id: ReplayId,
        /// Its sequence number.
        seq: u64,
        /// Its msgpack bytes.
        payload: Bytes,
    },
    /// A replay is over.
    ReplayEnd {
        /// The request.
        id: ReplayId,
        /// Whether the engine said so; `false`: silence, a failed connection or an undecodable answer.
        complete: bool,
    },
}
