//! Captured event messages, one per line.

use serde::Deserialize;

use super::CliError;
use crate::engine::{FrameError, LoadStat, RelayMessage, Replay, decode_load, decode_relay, replay};

/// One line of a capture. Fields it does not know are left alone, so that captures can carry notes.
#[derive(Debug, Deserialize)]
struct Line {
    /// Frames of one ZMQ message in hexadecimal.
    frames: Option<Vec<String>>,
    /// Only the payload, in hexadecimal.
    payload_hex: Option<String>,
    /// Sequence number for `payload_hex`.
    seq: Option<u64>,
    /// Who published it; captures of several engines need it.
    worker: Option<String>,
}

/// One captured message.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// Who published it.
    pub(super) worker: Option<String>,
    /// Topic, where it was captured.
    pub(super) topic: Option<String>,
    /// Sequence number, where it was captured.
    pub(super) seq: Option<u64>,
    /// What it is.
    pub(super) message: Message,
}

/// What a message is.
#[derive(Debug, Default)]
pub(super) enum Message {
    /// A batch of events, live or from a replay.
    Batch(Vec<u8>),
    /// The end marker of a replay.
    #[default]
    EndOfReplay,
    /// What a subscriber sends to be replayed everything from a number on.
    ReplayRequest(u64),
    /// SGLang's load socket.
    Load(LoadStat),
    /// Dynamo's event plane.
    Relay(RelayMessage),
    /// TensorRT-LLM's answer to `POST /kv_cache_events`, as JSON.
    Polled(String),
}

/// Reads one line: an object with `frames` or `payload_hex`, a polled engine's answer, or nothing but a payload in
/// hexadecimal.
///
/// # Errors
/// What is wrong with the line.
pub(super) fn read(line: &str) -> Result<Captured, String> {
    let text = line.trim();
    if text.starts_with('[') {
        return Ok(Captured { message: Message::Polled(text.to_owned()), ..Captured::default() });
    }
    if !text.starts_with('{') {
        return Ok(Captured { message: payload(hex(text.trim_matches('"'))?), ..Captured::default() });
    }
    let Line { frames, payload_hex, seq, worker } =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Some(frames) = frames else {
        let bytes = hex(&payload_hex.ok_or("neither `frames` nor `payload_hex`")?)?;
        return Ok(Captured { worker, seq, message: payload(bytes), ..Captured::default() });
    };
    let frames = frames.iter().map(|frame| hex(frame)).collect::<Result<Vec<_>, _>>()?;
    Ok(Captured { worker, ..message(&frames)? })
}

/// What the frames of a ZMQ message are.
fn message(frames: &[Vec<u8>]) -> Result<Captured, String> {
    let topic = |topic: &[u8]| Some(String::from_utf8_lossy(topic).into_owned());
    match frames {
        // As it is sent, and as the publisher receives it.
        [delimiter, from] | [_, delimiter, from] if delimiter.is_empty() && from.len() == 8 => {
            let from = from.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            Ok(Captured { message: Message::ReplayRequest(from), ..Captured::default() })
        }
        [named, _, _, _] if !named.is_empty() => {
            let relay = decode_relay(frames).map_err(|error| error.to_string())?;
            Ok(Captured { topic: topic(named), seq: Some(relay.seq), message: Message::Relay(relay), worker: None })
        }
        _ => Ok(match replay(frames).map_err(|error: FrameError| error.to_string())? {
            Replay::End => Captured::default(),
            Replay::Batch { topic: named, seq, payload: bytes } => Captured {
                topic: named.and_then(topic),
                seq: Some(seq),
                message: payload(bytes.to_vec()),
                worker: None,
            },
        }),
    }
}

/// A batch begins with a number, a load with its name: no payload is both.
fn payload(bytes: Vec<u8>) -> Message {
    decode_load(&bytes).map_or(Message::Batch(bytes), Message::Load)
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

    fn batch(line: &str) -> (Option<String>, Option<u64>, Vec<u8>) {
        match read(line).unwrap() {
            Captured { topic, seq, message: Message::Batch(payload), .. } => (topic, seq, payload),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_way_to_write_a_batch() {
        let topic = Some("kv".to_owned());
        let live = batch(r#"{"frames":["6b76","0000000000000007","93"],"id":"x"}"#);
        assert_eq!(live, (topic.clone(), Some(7), vec![0x93]));
        let dealer = r#"{"frames":["","6b76","0000000000000007","93"],"worker":"a"}"#;
        assert_eq!(batch(dealer), (topic, Some(7), vec![0x93]));
        assert_eq!(read(dealer).unwrap().worker.as_deref(), Some("a"));
        assert_eq!(batch("93fF"), (None, None, vec![0x93, 0xff]));
        assert_eq!(batch(r#"{"payload_hex":"93","seq":4}"#), (None, Some(4), vec![0x93]));
    }

    #[test]
    fn what_else_is_captured_is_told_apart() {
        let message = |line: &str| read(line).unwrap().message;
        assert!(matches!(message(r#"{"frames":["","","ffffffffffffffff",""]}"#), Message::EndOfReplay));
        for request in [r#"{"frames":["","0000000000000102"]}"#, r#"{"frames":["ab","","0000000000000102"]}"#] {
            assert!(matches!(message(request), Message::ReplayRequest(258)), "{request}");
        }
        assert!(matches!(message(r#" [{"event_id": 1}]"#), Message::Polled(text) if text.starts_with('[')));
        let bad = ["9", "zz", "{}", "{", r#"{"frames":["00"]}"#, r#"{"frames":["","01","00"]}"#];
        for bad in bad.into_iter().chain([r#"{"frames":["6b","00","00","00"]}"#]) {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
