//! Dynamo's event plane: what its relay beside a worker publishes. Decoded for people who debug; the bridge follows the
//! engines themselves.
//!
//! Frames: topic, publisher, sequence, body. Body: version byte 1, big-endian `u32` length, msgpack map with the events
//! as msgpack in a binary.

use thiserror::Error;

use super::event::EngineHash;
use super::fields::{array, hash, hashes, number, small, text, wrong};
use super::msgpack::{Fault, MsgpackError, Reader, Token};
use super::tagged::{Fields, Key};

const FRAME_VERSION: u8 = 1;
const MAX_EVENTS: u64 = 1 << 20;

/// A message of the event plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelayMessage {
    /// Identity of the relay.
    pub publisher: u64,
    /// Sequence number of the message.
    pub seq: u64,
    /// Unix milliseconds.
    pub published_at: u64,
    /// Its events.
    pub events: Vec<RelayEvent>,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelayEvent {
    /// Worker it is about.
    pub worker: u64,
    /// `device`, `host_pinned`, `disk`, `external`.
    pub tier: String,
    /// Number of the event; counts per worker and rank.
    pub event_id: u64,
    /// Data-parallel rank.
    pub rank: u32,
    /// The change.
    pub data: RelayData,
}

/// The change.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RelayData {
    /// Blocks entered: parent, then (engine hash, local hash of the tokens) per block.
    Stored(Option<EngineHash>, Vec<(EngineHash, u64)>),
    /// Blocks left.
    Removed(Vec<EngineHash>),
    /// Everything left.
    #[default]
    Cleared,
}

/// Why frames are not a message of the event plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RelayError {
    /// The frames or the body's head.
    #[error("not an event-plane message: {0}")]
    Envelope(&'static str),
    /// The msgpack inside.
    #[error("event-plane body: {0}")]
    Body(#[from] MsgpackError),
}

/// Decodes the four frames of a message.
///
/// # Errors
/// [`RelayError`] for anything else.
pub fn decode_relay<F: AsRef<[u8]>>(frames: &[F]) -> Result<RelayMessage, RelayError> {
    let [_topic, publisher, seq, body] = frames else {
        return Err(RelayError::Envelope("4 frames are expected"));
    };
    let eight = |frame: &[u8]| frame.try_into().map(u64::from_be_bytes);
    let publisher = eight(publisher.as_ref()).map_err(|_| RelayError::Envelope("publisher frame has not 8 bytes"))?;
    let seq = eight(seq.as_ref()).map_err(|_| RelayError::Envelope("sequence frame has not 8 bytes"))?;
    let (head, map) =
        body.as_ref().split_first_chunk::<5>().ok_or(RelayError::Envelope("body shorter than its head"))?;
    let [version, length @ ..] = *head;
    if version != FRAME_VERSION {
        return Err(RelayError::Envelope("unknown body version"));
    }
    if u32::from_be_bytes(length) as usize != map.len() {
        return Err(RelayError::Envelope("body length does not match"));
    }
    let mut message = RelayMessage { publisher, seq, ..RelayMessage::default() };
    let mut payload: &[u8] = &[];
    fields(&mut Reader::new(map), "envelope", |reader, key| {
        match key {
            b"published_at" => message.published_at = unsigned(reader, "published_at")?,
            b"payload" => {
                let before = *reader;
                match reader.token()? {
                    Token::Binary(bytes) => payload = bytes,
                    other => return Err(wrong(&before, "payload", "binary", other)),
                }
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    let mut reader = Reader::new(payload);
    for _ in 0..array(&mut reader, "payload", MAX_EVENTS)?.unwrap_or(0) {
        message.events.push(event(&mut reader)?);
    }
    Ok(message)
}

fn event(reader: &mut Reader<'_>) -> Result<RelayEvent, MsgpackError> {
    let mut event = RelayEvent::default();
    fields(reader, "event", |reader, key| {
        match key {
            b"worker_id" => event.worker = unsigned(reader, "worker_id")?,
            b"storage_tier" => event.tier = text(reader, "storage_tier")?.unwrap_or_default().into_owned(),
            b"event" => fields(reader, "event", |reader, key| {
                match key {
                    b"event_id" => event.event_id = unsigned(reader, "event_id")?,
                    b"dp_rank" => event.rank = small(reader, "dp_rank")?.unwrap_or(0),
                    b"data" => event.data = data(reader)?,
                    _ => reader.skip()?,
                }
                Ok(())
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(event)
}

/// `{"stored": {...}}`, `{"removed": {...}}` or the string `cleared`.
fn data(reader: &mut Reader<'_>) -> Result<RelayData, MsgpackError> {
    let mut data = RelayData::Cleared;
    let before = *reader;
    if matches!(reader.token()?, Token::Text(_)) {
        return Ok(data);
    }
    *reader = before;
    fields(reader, "data", |reader, key| {
        match key {
            b"stored" => data = stored(reader)?,
            b"removed" => fields(reader, "removed", |reader, key| {
                match key {
                    b"block_hashes" => data = RelayData::Removed(hashes(reader, "block_hashes")?),
                    _ => reader.skip()?,
                }
                Ok(())
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(data)
}

fn stored(reader: &mut Reader<'_>) -> Result<RelayData, MsgpackError> {
    let mut parent = None;
    let mut blocks = Vec::new();
    fields(reader, "stored", |reader, key| {
        match key {
            b"parent_hash" => parent = hash(reader, "parent_hash")?,
            b"blocks" => {
                for _ in 0..array(reader, "blocks", MAX_EVENTS)?.unwrap_or(0) {
                    blocks.push(block(reader)?);
                }
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(RelayData::Stored(parent, blocks))
}

fn block(reader: &mut Reader<'_>) -> Result<(EngineHash, u64), MsgpackError> {
    let (mut engine, mut local) = (EngineHash(0), 0);
    fields(reader, "block", |reader, key| {
        match key {
            b"block_hash" => engine = EngineHash(unsigned(reader, "block_hash")?),
            b"tokens_hash" => local = unsigned(reader, "tokens_hash")?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok((engine, local))
}

fn unsigned(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Unsigned(number) => Ok(number),
        other => {
            *reader = before;
            match number(reader, field)? {
                Some(number) => Ok(number.cast_unsigned()),
                None => Err(wrong(&before, field, "integer", other)),
            }
        }
    }
}

/// The pairs of a map.
fn fields<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    mut take: impl FnMut(&mut Reader<'a>, &'a [u8]) -> Result<(), MsgpackError>,
) -> Result<(), MsgpackError> {
    let before = *reader;
    let pairs = match reader.token()? {
        Token::Map(pairs) => pairs,
        other => return Err(wrong(&before, field, "map", other)),
    };
    Fields::Map(pairs).each(reader, |reader, key| match key {
        Key::Name(name) => take(reader, name),
        Key::Position(_) => Err(before.error(Fault::Missing { field })),
    })
}
