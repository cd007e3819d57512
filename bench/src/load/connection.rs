//! One blocking keep-alive HTTP/1.1 connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const READ_BYTES: usize = 16 * 1024;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Head and body leave in one write up to this size; beyond it the copy costs more than the second system call.
const ONE_WRITE_BYTES: usize = 32 * 1024;

pub(super) struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, request: Vec::new(), answer: Vec::new() })
    }

    /// Sends one POST, reads the whole answer, returns its status.
    pub(super) fn exchange(&mut self, host: &str, path: &str, body: &[u8]) -> io::Result<u16> {
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        if body.len() < ONE_WRITE_BYTES {
            self.request.extend_from_slice(body);
            self.stream.write_all(&self.request)?;
        } else {
            self.stream.write_all(&self.request)?;
            self.stream.write_all(body)?;
        }
        self.read_answer()
    }

    fn read_answer(&mut self) -> io::Result<u16> {
        self.answer.clear();
        let head_end = loop {
            self.read_more()?;
            if let Some(at) = self.answer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.answer[..head_end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        match length.map(|value| value.trim().parse::<usize>()) {
            Some(Ok(length)) => {
                while self.answer.len() < head_end + length {
                    self.read_more()?;
                }
            }
            Some(Err(_)) => return Err(ErrorKind::InvalidData.into()),
            None => {
                while !self.answer.ends_with(b"0\r\n\r\n") {
                    self.read_more()?;
                }
            }
        }
        Ok(status)
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut chunk = [0; READ_BYTES];
        let read = self.stream.read(&mut chunk)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.answer.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}
