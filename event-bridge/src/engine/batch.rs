//! A batch: `[time, events, rank]`, or a map with the same three.
//!
//! Events are handed out one by one, so that a batch of any size needs the memory of its largest event. A malformed
//! event costs that event; a batch is lost only when its structure is broken.

use thiserror::Error;

use super::event::Event;
use super::fields::{array, small, wrong};
use super::msgpack::{Fault, MsgpackError, Reader, Token};
use super::tagged::{self, Fields, Key};
use super::{removed, stored};

/// Most events in one batch.
const MAX_EVENTS: u64 = 1 << 20;

/// What surrounds the events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchInfo {
    /// Wall clock of the engine when it published, Unix seconds.
    pub time: f64,
    /// Data-parallel rank.
    pub rank: Option<u32>,
    /// Events in it, bad and unknown ones included.
    pub events: u32,
}

/// An event that cannot be used; the events around it can.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EventFault {
    /// A kind of event that this release does not know.
    #[error("event {index} has the unknown type {tag:?}: skipped")]
    Unknown {
        /// Position in the batch.
        index: u32,
        /// Its tag, cut to 64 bytes.
        tag: String,
    },
    /// An event with a malformed field: whatever it said is lost.
    #[error("event {index} is malformed and was dropped: {source}")]
    Malformed {
        /// Position in the batch.
        index: u32,
        /// What and where.
        source: MsgpackError,
    },
}

/// Why a whole payload is not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("payload is not an event batch: {0}")]
pub struct BatchError(#[from] pub MsgpackError);

/// Decodes `payload` and calls `sink` for each event in order.
///
/// # Errors
/// [`BatchError`] when the payload is no batch or its structure breaks off; `sink` may have seen some of its events.
pub fn decode_batch<'a>(
    payload: &'a [u8],
    mut sink: impl FnMut(Result<Event<'a>, EventFault>),
) -> Result<BatchInfo, BatchError> {
    let mut reader = Reader::new(payload);
    let start = reader;
    let fields = match reader.token()? {
        Token::Array(length) if length >= 2 => {
            let time = time(&mut reader)?;
            let events = events(&mut reader, &mut sink)?;
            let rank = if length > 2 { small(&mut reader, "data_parallel_rank")? } else { None };
            return Ok(BatchInfo { time, rank, events });
        }
        Token::Array(length) => {
            let fault = Fault::TooFew { field: "batch", length: u64::from(length), least: 2 };
            return Err(BatchError(start.error(fault)));
        }
        Token::Map(pairs) => Fields::Map(pairs),
        other => return Err(BatchError(wrong(&start, "batch", "array or map", other))),
    };
    let mut info = BatchInfo::default();
    let mut has_events = false;
    fields.each(&mut reader, |reader, key| {
        match key {
            Key::Name(b"ts") => info.time = time(reader)?,
            Key::Name(b"events") => {
                // A key that comes twice counts twice, as its events do.
                info.events = info.events.saturating_add(events(reader, &mut sink)?);
                has_events = true;
            }
            Key::Name(b"data_parallel_rank" | b"attn_dp_rank" | b"dp_rank") => {
                info.rank = small(reader, "data_parallel_rank")?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if has_events { Ok(info) } else { Err(BatchError(start.error(Fault::Missing { field: "events" }))) }
}

fn time(reader: &mut Reader<'_>) -> Result<f64, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Float(seconds) => Ok(seconds),
        Token::Unsigned(seconds) => Ok(seconds as f64),
        other => Err(wrong(&before, "ts", "number", other)),
    }
}

fn events<'a>(
    reader: &mut Reader<'a>,
    sink: &mut impl FnMut(Result<Event<'a>, EventFault>),
) -> Result<u32, MsgpackError> {
    let before = *reader;
    let Some(length) = array(reader, "events", MAX_EVENTS)? else {
        return Err(wrong(&before, "events", "array", Token::Nil));
    };
    for index in 0..length {
        let start = *reader;
        match event(reader) {
            Ok(Some(event)) => sink(Ok(event)),
            Ok(None) => {
                *reader = start;
                let tag = tagged::tag(reader).map(|(tag, _)| tag.chars().take(64).collect()).unwrap_or_default();
                *reader = start;
                reader.skip()?;
                sink(Err(EventFault::Unknown { index, tag }));
            }
            Err(source) => {
                *reader = start;
                reader.skip()?;
                sink(Err(EventFault::Malformed { index, source }));
            }
        }
    }
    Ok(length)
}

/// `None` for an event of an unknown kind; the reader then stands anywhere inside it.
fn event<'a>(reader: &mut Reader<'a>) -> Result<Option<Event<'a>>, MsgpackError> {
    let (tag, fields) = tagged::tag(reader)?;
    Ok(Some(match tag {
        "BlockStored" => Event::Stored(stored::read(reader, fields)?),
        "BlockRemoved" => Event::Removed(removed::read(reader, fields)?),
        "AllBlocksCleared" => {
            fields.each(reader, |reader, _| reader.skip())?;
            Event::Cleared
        }
        _ => return Ok(None),
    }))
}
