//! Bytes to frames and back. No I/O.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Frames up to this size are copied out of the read buffer, so that a small message kept for long does not keep a large
/// buffer.
const COPY_BELOW: usize = 16 << 10;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Another frame of the same message follows.
    pub more: bool,
    /// A command, not part of a message.
    pub command: bool,
    /// Its bytes.
    pub body: Bytes,
}

/// What a peer must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireFault {
    /// A frame with reserved flag bits.
    #[error("frame with unknown flags {0:#04x}")]
    Flags(u8),
    /// A frame beyond the bound.
    #[error("frame of {length} bytes, at most {most} are accepted")]
    Size {
        /// Announced length.
        length: u64,
        /// The bound.
        most: usize,
    },
    /// Bytes that do not begin with the ZMTP signature.
    #[error("not a ZMTP peer")]
    Signature,
    /// A version before 3.
    #[error("ZMTP version {0} is not supported")]
    Version(u8),
    /// A security mechanism other than NULL.
    #[error("the peer wants another security mechanism than NULL")]
    Mechanism,
    /// A command whose inner lengths do not add up.
    #[error("malformed {0} command")]
    Command(&'static str),
}

/// Takes frames off a buffer that bytes are appended to.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    max_frame: usize,
}

impl Decoder {
    /// A decoder that refuses frames above `max_frame` bytes.
    pub fn new(max_frame: usize) -> Self {
        Self { buffer: BytesMut::new(), max_frame }
    }

    /// Where to append what was read.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes `length` bytes off, once they are there.
    pub fn take(&mut self, length: usize) -> Option<Bytes> {
        (self.buffer.len() >= length).then(|| self.split(length))
    }

    /// The next frame; `None` until it is complete.
    ///
    /// # Errors
    /// [`WireFault`]; the stream is then useless.
    pub fn frame(&mut self) -> Result<Option<Frame>, WireFault> {
        let mut head = self.buffer.as_ref();
        let Ok(flags) = head.try_get_u8() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(WireFault::Flags(flags));
        }
        let is_long = flags & LONG != 0;
        let length = if is_long { head.try_get_u64() } else { head.try_get_u8().map(u64::from) };
        let Ok(length) = length else { return Ok(None) };
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= self.max_frame) else {
            return Err(WireFault::Size { length, most: self.max_frame });
        };
        if head.len() < length {
            return Ok(None);
        }
        self.buffer.advance(if is_long { 9 } else { 2 });
        Ok(Some(Frame { more: flags & MORE != 0, command: flags & COMMAND != 0, body: self.split(length) }))
    }

    fn split(&mut self, length: usize) -> Bytes {
        if length >= COPY_BELOW {
            return self.buffer.split_to(length).freeze();
        }
        let copy = self.buffer.get(..length).map(Bytes::copy_from_slice).unwrap_or_default();
        self.buffer.advance(length.min(self.buffer.len()));
        copy
    }
}

/// Appends one frame.
pub(super) fn encode(frame: &Frame, out: &mut BytesMut) {
    let Frame { more, command, body } = frame;
    let flags = (u8::from(*more) * MORE) | (u8::from(*command) * COMMAND);
    match u8::try_from(body.len()) {
        Ok(length) => {
            out.put_u8(flags);
            out.put_u8(length);
        }
        Err(_) => {
            out.put_u8(flags | LONG);
            out.put_u64(body.len() as u64);
        }
    }
    out.extend_from_slice(body);
}

/// A command frame.
pub(super) fn command(name: &str, data: &[u8]) -> Frame {
    let mut body = BytesMut::with_capacity(1 + name.len() + data.len());
    body.put_u8(name.len() as u8);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    Frame { more: false, command: true, body: body.freeze() }
}

/// Name and data of a command's body.
pub(super) fn split_command(body: &[u8]) -> Result<(&[u8], &[u8]), WireFault> {
    let (length, rest) = body.split_first().ok_or(WireFault::Command("unnamed"))?;
    rest.split_at_checked(usize::from(*length)).ok_or(WireFault::Command("unnamed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_in_pieces(bytes: &[u8], piece: usize) -> Vec<Frame> {
        let mut decoder = Decoder::new(1 << 20);
        let mut frames = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(frame) = decoder.frame().unwrap() {
                frames.push(frame);
            }
        }
        assert!(decoder.buffer().is_empty());
        frames
    }

    #[test]
    fn frames_of_every_size_survive_any_cut() {
        let frame = |size: usize, more| Frame { more, command: false, body: vec![7; size].into() };
        let frames =
            [frame(0, true), frame(255, true), frame(256, false), frame(70_000, false), command("PING", &[0, 0])];
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| encode(frame, &mut bytes));
        for piece in [1, 7, 4096, bytes.len()] {
            assert_eq!(decode_in_pieces(&bytes, piece), frames, "{piece}");
        }
    }

    #[test]
    fn a_frame_too_large_is_refused_by_its_head() {
        let mut decoder = Decoder::new(1000);
        decoder.buffer().extend_from_slice(&[LONG, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(decoder.frame(), Err(WireFault::Size { length: 1 << 40, most: 1000 }));
        let mut decoder = Decoder::new(1000);
        decoder.buffer().extend_from_slice(&[0x80, 0]);
        assert_eq!(decoder.frame(), Err(WireFault::Flags(0x80)));
    }

    #[test]
    fn commands_split_and_lying_lengths_are_refused() {
        let frame = command("READY", b"xyz");
        assert_eq!(split_command(&frame.body), Ok((&b"READY"[..], &b"xyz"[..])));
        assert!(split_command(&[9, b'a']).is_err());
        assert!(split_command(&[]).is_err());
    }
}
