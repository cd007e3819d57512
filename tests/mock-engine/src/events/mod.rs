//! KV-cache events: their bytes on the wire, the publisher with its replay buffer, and its faults.

mod encode;
mod publisher;
mod replay;

pub use encode::{BlockStored, KvEvent, encode_batch};
pub use publisher::{EventFaults, Publisher, PublisherConfig, PublisherError};
