//! Greeting and READY: what both sides say first. No I/O.

use bytes::{BufMut, BytesMut};

use super::codec::{Frame, WireFault, command, split_command};

/// Bytes of a greeting.
pub(super) const GREETING: usize = 64;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const SOCKET_TYPE: &str = "Socket-Type";

/// Our greeting.
pub(super) fn greeting() -> [u8; GREETING] {
    let mut bytes = BytesMut::with_capacity(GREETING);
    bytes.put_u8(0xff);
    bytes.put_bytes(0, 8);
    bytes.put_u8(0x7f);
    bytes.put_u8(3);
    bytes.put_u8(1);
    bytes.extend_from_slice(MECHANISM);
    bytes.put_bytes(0, 32);
    bytes.first_chunk().copied().unwrap_or([0; GREETING])
}

/// Reads a greeting; returns the peer's minor version.
pub(super) fn read_greeting(bytes: &[u8]) -> Result<u8, WireFault> {
    let Some([0xff, _, _, _, _, _, _, _, _, 0x7f, major, minor, rest @ ..]) = bytes.first_chunk::<GREETING>() else {
        return Err(WireFault::Signature);
    };
    if *major < 3 {
        return Err(WireFault::Version(*major));
    }
    if !rest.starts_with(MECHANISM) {
        return Err(WireFault::Mechanism);
    }
    Ok(*minor)
}

/// Our READY command.
pub(super) fn ready(socket_type: &str) -> Frame {
    let mut data = BytesMut::new();
    for (name, value) in [(SOCKET_TYPE, socket_type), ("Identity", "")] {
        data.put_u8(name.len() as u8);
        data.extend_from_slice(name.as_bytes());
        data.put_u32(value.len() as u32);
        data.extend_from_slice(value.as_bytes());
    }
    command("READY", &data)
}

/// What a peer answers to our READY.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its socket type.
    Ready(String),
    /// It will not talk to us.
    Refused(String),
}

/// Reads the peer's first command.
pub(super) fn read_answer(body: &[u8]) -> Result<Answer, WireFault> {
    let fault = WireFault::Command("READY");
    match split_command(body)? {
        (b"READY", mut data) => {
            while let Some((length, rest)) = data.split_first() {
                let (name, rest) = rest.split_at_checked(usize::from(*length)).ok_or(fault)?;
                let (length, rest) = rest.split_first_chunk::<4>().ok_or(fault)?;
                let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(fault)?;
                if name.eq_ignore_ascii_case(SOCKET_TYPE.as_bytes()) {
                    return Ok(Answer::Ready(text(value)));
                }
                data = rest;
            }
            Ok(Answer::Ready(String::new()))
        }
        (b"ERROR", data) => Ok(Answer::Refused(text(data.get(1..).unwrap_or_default()))),
        _ => Err(fault),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_greeting_and_ready_are_understood() {
        assert_eq!(read_greeting(&greeting()), Ok(1));
        assert_eq!(read_answer(&ready("SUB").body), Ok(Answer::Ready("SUB".into())));
    }

    #[test]
    fn strangers_are_told_apart() {
        assert_eq!(read_greeting(&[b'H'; 64]), Err(WireFault::Signature));
        let mut old = greeting();
        old[10] = 1;
        assert_eq!(read_greeting(&old), Err(WireFault::Version(1)));
        let mut curve = greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(read_greeting(&curve), Err(WireFault::Mechanism));
        assert_eq!(read_answer(b"\x05ERROR\x03why"), Ok(Answer::Refused("why".into())));
        assert!(read_answer(b"\x05READY\x0bSocket").is_err());
        assert!(read_answer(b"\x05READY\x01a\xff\xff\xff\xff").is_err());
        assert!(read_answer(b"\x04PING").is_err());
    }
}
