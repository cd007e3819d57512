//! Bytes of an engine's event messages to typed events. Every decoder is a function over `&[u8]` without sockets or
//! clock: bounded, never panicking, with an error that says where the bytes went wrong.

mod batch;
mod describe;
mod event;
mod extra_keys;
mod fields;
mod frames;
mod load;
mod medium;
pub mod msgpack;
mod relay;
mod removed;
mod sources;
mod stored;
mod tagged;
mod trtllm;

pub use batch::{BatchError, BatchInfo, EventFault, decode_batch};
pub use describe::describe;
pub use event::{EngineHash, Event, ExtraKey, Moved, Removed, SpecKind, Stored, Tokens, is_remote};
pub use frames::{FrameError, Live, Replay, live, replay, replay_request};
pub use load::{LoadStat, decode_load};
pub use medium::Medium;
pub use relay::{RelayData, RelayError, RelayEvent, RelayMessage, decode_relay};
pub(crate) use sources::is_wildcard;
pub use sources::{EventSource, SourcesError, sglang_sources, vllm_sources};
pub use trtllm::{Polled, PolledError, PolledKind, decode_polled, decode_polled_event, polled_head, split_polled};
