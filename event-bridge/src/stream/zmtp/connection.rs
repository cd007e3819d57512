//! One connection to one peer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::codec::{Decoder, Frame, WireFault, command, encode, split_command};
use super::handshake::{Answer, GREETING, greeting, read_answer, read_greeting, ready};

/// Most frames of one message.
const MAX_FRAMES: usize = 16;
/// Least free space of the read buffer.
const READ_CHUNK: usize = 64 << 10;

/// Why a connection is of no use (any more).
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The transport failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The peer closed it.
    #[error("closed by the peer")]
    Closed,
    /// The peer does not speak the protocol, or too much of it.
    #[error("{0}")]
    Fault(#[from] WireFault),
    /// The peer refuses to talk.
    #[error("refused by the peer: {0}")]
    Refused(String),
    /// There is another kind of socket at the other end, as when replay and event endpoints are swapped.
    #[error("the peer is a {found} socket, not a {wanted}: is this the right endpoint?")]
    SocketType {
        /// What it says it is.
        found: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A message of too many frames or bytes.
    #[error("message of more than {0} frames or of more bytes than accepted")]
    Message(usize),
    /// Nothing was heard for so long that the peer must be gone.
    #[error("no answer to a ping")]
    Silent,
}

/// Which of the two sockets we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Listens to a PUB.
    Subscriber,
    /// Talks to a ROUTER.
    Dealer,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Subscriber => &["PUB", "XPUB"],
            Self::Dealer => &["ROUTER", "DEALER", "REP"],
        }
    }
}

/// When to ask a silent peer whether it is still there, and how long to wait for anything then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Silence before a ping.
    pub after: Duration,
    /// Silence after it before the peer is given up.
    pub patience: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    decoder: Decoder,
    max_bytes: usize,
    /// Peers of 3.1 know commands that older ones may take for an attack.
    knows_commands: bool,
    /// Frames so far of the message being received.
    frames: Vec<Bytes>,
    heard: Instant,
    pinged: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Shakes hands over a fresh transport.
    ///
    /// # Errors
    /// [`ConnectionError`] when the peer is no ZMTP 3 peer, wants security, or is the wrong kind of socket.
    pub async fn open(mut stream: S, role: Role, max_bytes: usize) -> Result<Self, ConnectionError> {
        stream.write_all(&greeting()).await?;
        let mut connection = Self {
            stream,
            decoder: Decoder::new(max_bytes),
            max_bytes,
            knows_commands: false,
            frames: Vec::new(),
            heard: Instant::now(),
            pinged: None,
        };
        let greeting = loop {
            match connection.decoder.take(GREETING) {
                Some(greeting) => break greeting,
                None => connection.fill().await?,
            }
        };
        connection.knows_commands = read_greeting(&greeting)? >= 1;
        connection.write(&[ready(role.name())]).await?;
        let answer = loop {
            match connection.decoder.frame()? {
                Some(frame) if frame.command => break frame.body,
                Some(_) => return Err(WireFault::Command("READY").into()),
                None => connection.fill().await?,
            }
        };
        match read_answer(&answer)? {
            Answer::Refused(reason) => Err(ConnectionError::Refused(reason)),
            Answer::Ready(found) if role.peers().contains(&found.as_str()) => Ok(connection),
            Answer::Ready(found) => {
                let wanted = role.peers().first().copied().unwrap_or_default();
                Err(ConnectionError::SocketType { found, wanted })
            }
        }
    }

    /// Asks for every message whose topic begins with `topic`.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn subscribe(&mut self, topic: &str) -> Result<(), ConnectionError> {
        let frame = if self.knows_commands {
            command("SUBSCRIBE", topic.as_bytes())
        } else {
            let mut body = BytesMut::from(&[1_u8][..]);
            body.extend_from_slice(topic.as_bytes());
            Frame { more: false, command: false, body: body.freeze() }
        };
        self.write(&[frame]).await
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn send(&mut self, parts: &[Bytes]) -> Result<(), ConnectionError> {
        let last = parts.len().saturating_sub(1);
        let frame = |(at, body): (usize, &Bytes)| Frame { more: at < last, command: false, body: body.clone() };
        let frames: Vec<Frame> = parts.iter().enumerate().map(frame).collect();
        self.write(&frames).await
    }

    /// The next message. A connection whose future was dropped half-way must be dropped too.
    ///
    /// # Errors
    /// The connection ended, the peer broke the protocol, or with `heartbeat` it is silent and does not answer a ping.
    pub async fn receive(&mut self, heartbeat: Option<Heartbeat>) -> Result<Vec<Bytes>, ConnectionError> {
        loop {
            while let Some(frame) = self.decoder.frame()? {
                if frame.command {
                    self.answer(&frame.body).await?;
                } else if let Some(message) = self.collect(frame)? {
                    return Ok(message);
                }
            }
            match heartbeat.filter(|_| self.knows_commands) {
                None => self.fill().await?,
                Some(heartbeat) => self.fill_or_ping(heartbeat).await?,
            }
        }
    }

    fn collect(&mut self, frame: Frame) -> Result<Option<Vec<Bytes>>, ConnectionError> {
        let bytes: usize = self.frames.iter().map(Bytes::len).sum();
        if self.frames.len() == MAX_FRAMES || bytes + frame.body.len() > self.max_bytes {
            return Err(ConnectionError::Message(MAX_FRAMES));
        }
        self.frames.push(frame.body);
        Ok((!frame.more).then(|| std::mem::take(&mut self.frames)))
    }

    async fn answer(&mut self, body: &[u8]) -> Result<(), ConnectionError> {
        match split_command(body)? {
            (b"PING", data) => {
                let context = data.get(2..).ok_or(WireFault::Command("PING"))?;
                self.write(&[command("PONG", context)]).await
            }
            (b"ERROR", data) => {
                let reason = String::from_utf8_lossy(data.get(1..).unwrap_or_default()).chars().take(200).collect();
                Err(ConnectionError::Refused(reason))
            }
            _ => Ok(()),
        }
    }

    /// Waits for more bytes; after a silence it pings, after a longer one it gives the peer up.
    async fn fill_or_ping(&mut self, heartbeat: Heartbeat) -> Result<(), ConnectionError> {
        let due = match self.pinged {
            Some(pinged) => pinged + heartbeat.patience,
            None => self.heard + heartbeat.after,
        };
        match timeout_at(due, self.fill()).await {
            Ok(result) => result,
            Err(_) if self.pinged.is_some() => Err(ConnectionError::Silent),
            Err(_) => {
                self.pinged = Some(Instant::now());
                self.write(&[command("PING", &[0, 0])]).await
            }
        }
    }

    async fn fill(&mut self) -> Result<(), ConnectionError> {
        let buffer = self.decoder.buffer();
        buffer.reserve(READ_CHUNK);
        if self.stream.read_buf(buffer).await? == 0 {
            return Err(ConnectionError::Closed);
        }
        self.heard = Instant::now();
        self.pinged = None;
        Ok(())
    }

    async fn write(&mut self, frames: &[Frame]) -> Result<(), ConnectionError> {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| encode(frame, &mut bytes));
        self.stream.write_all(&bytes).await?;
        Ok(self.stream.flush().await?)
    }
}
