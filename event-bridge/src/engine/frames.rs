//! ZMQ messages: which frame is what.
//!
//! Live: `topic, sequence, payload`. Replay, as a DEALER sees it: an empty delimiter, then `sequence, payload` (vLLM up to
//! 0.25, SGLang up to 0.5.21) or `topic, sequence, payload`; the end marker has a sequence of eight `ff` bytes and an empty
//! payload. Frames are therefore counted from the end.

use thiserror::Error;

/// Sequence number of the end marker.
const END: u64 = u64::MAX;

/// A message with the wrong frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Not the number of frames this kind of message has.
    #[error("{found} frames where {wanted} are expected")]
    Count {
        /// Number of frames.
        found: usize,
        /// What is expected.
        wanted: &'static str,
    },
    /// A sequence number that has not eight bytes.
    #[error("sequence frame of {0} bytes instead of 8")]
    Sequence(usize),
}

/// A live message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live<'a> {
    /// First frame.
    pub topic: &'a [u8],
    /// Sequence number.
    pub seq: u64,
    /// The batch.
    pub payload: &'a [u8],
}

/// One answer to a replay request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay<'a> {
    /// A batch out of the buffer.
    Batch {
        /// Topic, where the layout has one.
        topic: Option<&'a [u8]>,
        /// Sequence number.
        seq: u64,
        /// The batch.
        payload: &'a [u8],
    },
    /// There is no more.
    End,
}

/// Reads a live message.
///
/// # Errors
/// [`FrameError`] unless there are three frames and the second has eight bytes.
pub fn live<F: AsRef<[u8]>>(frames: &[F]) -> Result<Live<'_>, FrameError> {
    match frames {
        [topic, seq, payload] => {
            Ok(Live { topic: topic.as_ref(), seq: sequence(seq.as_ref())?, payload: payload.as_ref() })
        }
        _ => Err(FrameError::Count { found: frames.len(), wanted: "3 (topic, sequence, payload)" }),
    }
}

/// Reads an answer to a replay request, with or without the DEALER's empty delimiter.
///
/// # Errors
/// [`FrameError`] unless two or three frames follow the delimiter and the last but one has eight bytes.
pub fn replay<F: AsRef<[u8]>>(frames: &[F]) -> Result<Replay<'_>, FrameError> {
    let (topic, seq, payload) = match frames {
        [seq, payload] => (None, seq, payload),
        // Three frames are (delimiter, sequence, payload) or, with the delimiter already taken off, (topic, sequence,
        // payload); an empty topic and the delimiter look the same and mean the same.
        [first, seq, payload] => (Some(first).filter(|first| !first.as_ref().is_empty()), seq, payload),
        [delimiter, topic, seq, payload] if delimiter.as_ref().is_empty() => (Some(topic), seq, payload),
        _ => {
            let wanted = "2 or 3 ([topic,] sequence, payload) after the empty delimiter";
            return Err(FrameError::Count { found: frames.len(), wanted });
        }
    };
    let (seq, payload) = (sequence(seq.as_ref())?, payload.as_ref());
    if seq == END && payload.is_empty() {
        return Ok(Replay::End);
    }
    Ok(Replay::Batch { topic: topic.map(AsRef::as_ref), seq, payload })
}

/// The payload of a replay request, which follows an empty delimiter.
pub fn replay_request(from: u64) -> [u8; 8] {
    from.to_be_bytes()
}

fn sequence(frame: &[u8]) -> Result<u64, FrameError> {
    frame.try_into().map(u64::from_be_bytes).map_err(|_| FrameError::Sequence(frame.len()))
}
