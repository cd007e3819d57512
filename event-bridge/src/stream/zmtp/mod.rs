//! ZMTP 3.1 with the NULL mechanism, as far as a SUB and a DEALER need it.
//!
//! Why not a ZMQ library: the size of what a peer may send is bounded here before anything is reserved for it, a connection's
//! end is seen exactly behind its last message (order and restarts depend on that), and PING finds peers that vanished
//! without closing.
//!
//! ```text
//! greeting  ff 00*8 7f | 03 01 | "NULL" padded to 20 | as-server 00 | 00*31          64 bytes, both sides at once
//! frame     flags | length (1 byte, or 8 when flag LONG is set) | body               flags: 1 MORE, 2 LONG, 4 COMMAND
//! command   body = name length, name, data
//!   READY      (name length, name, value length u32, value)*   once each, right after the greeting
//!   SUBSCRIBE  topic                                            to peers of 3.1; a message 01 topic to older ones
//!   PING       ttl u16, context     PONG context                only to peers of 3.1
//!   ERROR      reason length, reason
//! ```

mod codec;
mod connection;
mod handshake;

pub use codec::{Decoder, Frame, WireFault};
pub use connection::{Connection, ConnectionError, Heartbeat, Role};
