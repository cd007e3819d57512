//! Captured event messages, one JSON object per line.

use serde::Deserialize;

use super::CliError;
use crate::engine::{FrameError, Replay, replay};

/// One line of a capture. Fields it does not know are left alone, so that captures can carry notes.
#[derive(Debug, Deserialize)]
struct Line {
    /// Frames of one ZMQ message in hexadecimal: a live one or an answer to a replay request.
    frames: Option<Vec<String>>,
    /// Only the payload, in hexadecimal.
    payload_hex: Option<String>,
    /// Sequence number for `payload_hex`.
    seq: Option<u64>,
    /// Who published it; captures of several engines need it.
    worker: Option<String>,
}

/// One captured message.
#[derive(Debug)]
pub(super) struct Captured {
    /// Who published it.
    pub(super) worker: Option<String>,
    /// Topic, where it was captured.
    pub(super) topic: Option<String>,
    /// Sequence number, where it was captured.
    pub(super) seq: Option<u64>,
    /// The batch; `None` for the end marker of a replay.
    pub(super) payload: Option<Vec<u8>>,
}

/// Reads one line: an object with `frames` or `payload_hex`, or nothing but a payload in hexadecimal.
///
/// # Errors
/// What is wrong with the line.
pub(super) fn read(line: &str) -> Result<Captured, String> {
    let text = line.trim();
    if !text.starts_with('{') {
        let payload = Some(hex(text.trim_matches('"'))?);
        return Ok(Captured { worker: None, topic: None, seq: None, payload });
    }
    let Line { frames, payload_hex, seq, worker } =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Some(frames) = frames else {
        let payload = payload_hex.ok_or("neither `frames` nor `payload_hex`")?;
        return Ok(Captured { worker, topic: None, seq, payload: Some(hex(&payload)?) });
    };
    let frames = frames.iter().map(|frame| hex(frame)).collect::<Result<Vec<_>, _>>()?;
    let message = replay(&frames).map_err(|error: FrameError| error.to_string())?;
    Ok(match message {
        Replay::End => Captured { worker, topic: None, seq: None, payload: None },
        Replay::Batch { topic, seq, payload } => Captured {
            worker,
            topic: topic.map(|topic| String::from_utf8_lossy(topic).into_owned()),
            seq: Some(seq),
            payload: Some(payload.to_vec()),
        },
    })
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(format!("hexadecimal of odd length {}", digits.len()));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(|pair| byte(pair).ok_or_else(|| "not hexadecimal".to_owned())).collect()
}

/// The error of a command that met bad lines, each of which it has shown.
pub(super) fn bad_lines(count: u64) -> Result<(), CliError> {
    if count == 0 { Ok(()) } else { Err(CliError::Input(format!("{count} lines could not be used"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_message() {
        let live = read(r#"{"frames":["6b76","0000000000000007","93"],"id":"x"}"#).unwrap();
        assert_eq!((live.topic.as_deref(), live.seq, live.payload), (Some("kv"), Some(7), Some(vec![0x93])));
        let dealer = read(r#"{"frames":["","6b76","0000000000000007","93"],"worker":"a"}"#).unwrap();
        assert_eq!((dealer.worker.as_deref(), dealer.seq), (Some("a"), Some(7)));
        assert!(read(r#"{"frames":["","","ffffffffffffffff",""]}"#).unwrap().payload.is_none());
        assert_eq!(read("93fF").unwrap().payload, Some(vec![0x93, 0xff]));
        assert_eq!(read(r#"{"payload_hex":"93","seq":4}"#).unwrap().seq, Some(4));
        for bad in ["9", "zz", "{}", "{", r#"{"frames":["00"]}"#, r#"{"frames":["","01","00"]}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
