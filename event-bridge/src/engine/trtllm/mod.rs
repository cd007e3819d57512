//! TensorRT-LLM's buffered events: the JSON array that `POST /kv_cache_events` returns and drains.
//!
//! ```text
//! [{"event_id": 7, "window_size": 2048?, "attention_dp_rank": 1?, "data": DATA}, ...]
//! DATA = {"type": "created", ...} | {"type": "removed", "block_hashes": [H, ...]}
//!      | {"type": "stored", "parent_hash": H?, "blocks": [{"block_hash": H, "tokens": [{"token_id": n, "token_extra_id": n}],
//!                                                          "cache_level": n, "mm_keys": [...]?, "cache_salt": s?}]}
//!      | {"type": "updated", "block_hash": H, "cache_level": {"old_value": n, "new_value": n}?}
//! H    = number up to 2^64 | hexadecimal string
//! ```
//!
//! The last block of a store may be partial, and nothing says so: it has fewer tokens than the others. Adapters are not
//! serialised at all, so a pool that uses them cannot tell their blocks from the base model's.

mod convert;
mod layout;

use thiserror::Error;

use self::layout::Envelope;
use super::Event;

/// Longest body looked at.
const MAX_BODY: usize = 256 << 20;

/// One event of the array.
#[derive(Clone, Debug, PartialEq)]
pub struct Polled<'a> {
    /// Counts per rank; a jump means that the engine's buffer overflowed.
    pub id: u64,
    /// Attention window it belongs to; the largest one is global attention.
    pub window: Option<u64>,
    /// Attention data-parallel rank.
    pub rank: Option<u32>,
    /// What changed, in order. Empty for events that change no block.
    pub changes: Vec<Event<'a>>,
    /// What kind of event it is, as far as its changes do not say.
    pub kind: PolledKind,
}

/// What an event says beside its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolledKind {
    /// A process has made its cache. Comes first, once per window.
    Created,
    /// Blocks changed, or only their priorities.
    Changed,
    /// A kind this release does not know.
    Unknown,
}

/// Why a body, or one event of it, cannot be used.
#[derive(Debug, Error)]
pub enum PolledError {
    /// More than any engine buffers.
    #[error("{0} bytes of events, at most {MAX_BODY} are looked at")]
    Size(usize),
    /// Not a JSON array.
    #[error("not a JSON array of events: {0}")]
    Body(serde_json::Error),
    /// One event is not what it should be.
    #[error("event {index}: {source}")]
    Event {
        /// Position in the array.
        index: usize,
        /// What and where, counted from the event's beginning.
        source: serde_json::Error,
    },
}

/// The JSON text of each event of a body.
///
/// # Errors
/// [`PolledError`] when the body is no JSON array.
pub fn split_polled(body: &[u8]) -> Result<Vec<&str>, PolledError> {
    if body.len() > MAX_BODY {
        return Err(PolledError::Size(body.len()));
    }
    let events: Vec<&serde_json::value::RawValue> = serde_json::from_slice(body).map_err(PolledError::Body)?;
    Ok(events.into_iter().map(serde_json::value::RawValue::get).collect())
}

/// Decodes one event.
///
/// # Errors
/// The text is not an event.
pub fn decode_polled_event(text: &str) -> Result<Polled<'_>, serde_json::Error> {
    serde_json::from_str::<Envelope<'_>>(text).map(convert::polled)
}

/// Number and rank of an event, whatever its data is.
///
/// # Errors
/// The text is not an event.
pub fn polled_head(text: &str) -> Result<(u64, Option<u32>), serde_json::Error> {
    serde_json::from_str::<layout::Head>(text).map(|head| (head.event_id, head.attention_dp_rank))
}

/// Decodes a whole body; a malformed event costs that event.
///
/// # Errors
/// [`PolledError`] when the body is no JSON array.
pub fn decode_polled(body: &[u8]) -> Result<Vec<Result<Polled<'_>, PolledError>>, PolledError> {
    let decode = |(index, text)| decode_polled_event(text).map_err(|source| PolledError::Event { index, source });
    Ok(split_polled(body)?.into_iter().enumerate().map(decode).collect())
}

#[cfg(test)]
mod tests;
