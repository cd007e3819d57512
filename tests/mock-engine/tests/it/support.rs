//! Files, a plain client and sockets for the tests.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use mock_engine::{EngineConfig, Model, ModelSource, Speed};
use serde_json::Value;
use tokio::net::TcpStream;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A file of recorded facts.
pub(crate) fn data_file(name: &str) -> String {
    std::fs::read_to_string(root().join("tests/data").join(name)).unwrap()
}

/// A tokenizer folder fetched by `make setup`.
pub(crate) fn tokenizer_dir(name: &str) -> PathBuf {
    let dir = root().join(".deps/tokenizers").join(name);
    assert!(dir.join("tokenizer.json").exists(), "{} is missing: run `make setup`", dir.display());
    dir
}

/// The Qwen2.5 tokenizer that the recorded engines used, loaded once for all tests.
pub(crate) fn qwen() -> Arc<Model> {
    static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(Model::load(&tokenizer_dir("qwen2_5")).unwrap()));
    MODEL.clone()
}

/// A configuration over that tokenizer, a hundred times faster than real.
pub(crate) fn config() -> EngineConfig {
    let speed = Speed { speedup: 100.0, ..Speed::default() };
    EngineConfig { speed, ..EngineConfig::new(ModelSource::Loaded(qwen())) }
}

/// A plain HTTP/1.1 client: one request per connection.
pub(crate) struct Client {
    address: SocketAddr,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of server-sent events, `[DONE]` left out.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let data: Vec<&str> = self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(data.last(), Some(&"[DONE]"), "{}", self.body);
        data[..data.len() - 1].iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], String::new()).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body.to_string()).await.unwrap()
    }

    /// One request; an error when the connection breaks before the answer is complete.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "mock");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        driver.abort();
        Ok(Answer { status, body: String::from_utf8(body.to_vec())? })
    }
}

/// A subscriber of one event endpoint.
pub(crate) struct Subscriber {
    socket: SubSocket,
}

impl Subscriber {
    /// Connects and waits until the publisher knows the subscription.
    pub(crate) async fn connect(endpoint: &str) -> Self {
        let mut socket = SubSocket::new();
        socket.connect(endpoint).await.unwrap();
        socket.subscribe("kv-events").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        Self { socket }
    }

    /// The next batch: its sequence number and payload.
    pub(crate) async fn next(&mut self) -> (u64, Bytes) {
        self.next_within(Duration::from_secs(5)).await.expect("a batch")
    }

    pub(crate) async fn next_within(&mut self, wait: Duration) -> Option<(u64, Bytes)> {
        let message = tokio::time::timeout(wait, self.socket.recv()).await.ok()?.unwrap();
        let frames = message.into_vec();
        assert_eq!((frames.len(), frames[0].as_ref()), (3, b"kv-events".as_slice()));
        Some((u64::from_be_bytes(frames[1].as_ref().try_into().unwrap()), frames[2].clone()))
    }
}

/// Asks for a replay from `start`; the frames of every reply until the end marker, delimiter left out.
pub(crate) async fn replay(endpoint: &str, start: u64) -> Vec<Vec<Bytes>> {
    let mut socket = DealerSocket::new();
    socket.connect(endpoint).await.unwrap();
    let mut request = ZmqMessage::from(Bytes::new());
    request.push_back(Bytes::copy_from_slice(&start.to_be_bytes()));
    socket.send(request).await.unwrap();
    let mut replies = Vec::new();
    loop {
        let reply = tokio::time::timeout(Duration::from_secs(5), socket.recv()).await.expect("a reply").unwrap();
        let mut frames = reply.into_vec();
        assert!(frames.remove(0).is_empty(), "delimiter");
        let end = frames[1].as_ref() == [0xff; 8] && frames[2].is_empty();
        replies.push(frames);
        if end {
            return replies;
        }
    }
}

/// A payload as JSON, hashes and all: `[ts, events, rank]`.
pub(crate) fn decode(payload: &[u8]) -> Value {
    let value = rmpv::decode::read_value(&mut &payload[..]).unwrap();
    serde_json::to_value(JsonView(&value)).unwrap()
}

struct JsonView<'a>(&'a rmpv::Value);

impl serde::Serialize for JsonView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            rmpv::Value::Nil => serializer.serialize_none(),
            rmpv::Value::Boolean(value) => serializer.serialize_bool(*value),
            rmpv::Value::Integer(value) => serializer.serialize_u64(value.as_u64().unwrap()),
            rmpv::Value::F64(value) => serializer.serialize_f64(*value),
            rmpv::Value::String(value) => serializer.serialize_str(value.as_str().unwrap()),
            rmpv::Value::Array(items) => serializer.collect_seq(items.iter().map(JsonView)),
            rmpv::Value::Map(pairs) => {
                serializer.collect_map(pairs.iter().map(|(key, value)| (key.as_str().unwrap(), JsonView(value))))
            }
            other => panic!("not in events: {other}"),
        }
    }
}
