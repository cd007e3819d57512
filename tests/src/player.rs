//! Recorded event frames on a real socket.

use anyhow::Result;
use serde_json::Value;
use zeromq::{PubSocket, Socket, SocketSend, ZmqMessage};

/// A PUB socket that says what a recording says.
pub struct Player {
    socket: PubSocket,
    endpoint: String,
}

impl Player {
    /// Binds to a port chosen by the kernel.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn start() -> Result<Self> {
        let mut socket = PubSocket::new();
        let endpoint = socket.bind("tcp://127.0.0.1:0").await?.to_string();
        Ok(Self { socket, endpoint })
    }

    /// Where it publishes.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Publishes the frames of one line of `vllm-real-frames.jsonl`, byte for byte.
    ///
    /// # Errors
    /// When the socket refuses.
    pub async fn play(&mut self, record: &Value) -> Result<()> {
        let mut message = ZmqMessage::from(bytes(record, "topic_hex"));
        message.push_back(bytes(record, "seq_hex").into());
        message.push_back(bytes(record, "payload_hex").into());
        Ok(self.socket.send(message).await?)
    }
}

fn bytes(record: &Value, field: &str) -> Vec<u8> {
    let digits = record[field].as_str().unwrap_or_else(|| panic!("no {field}")).as_bytes();
    let digit = |digit: u8| (digit as char).to_digit(16).expect("hexadecimal") as u8;
    digits.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
