//! A bridge under test: its folder, its configuration, its admin API.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use event_bridge::bridge::Bridge;
use event_bridge::config::{Config, WorkerAddress};
use event_bridge::probe::WorkerClient;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::worker::FakeWorker;

/// How long anything may take on a busy machine before a test gives up. What has a limit of its own is measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder for one test, removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("kv-bridge-it-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Replaces a file by rename.
    pub(crate) fn replace(&self, name: &str, text: &str) {
        let beside = self.path(&format!("{name}.new"));
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path(name)).unwrap();
    }

    /// Writes the workers file.
    pub(crate) fn workers(&self, workers: &[&FakeWorker]) {
        let list: Vec<Value> = workers.iter().map(|worker| json!({"address": worker.address()})).collect();
        self.replace("workers.yaml", &json!({ "workers": list }).to_string());
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Configuration of one pool with the workers of `workers.yaml` and the given Envoys.
pub(crate) fn config(scratch: &Scratch, envoys: Value) -> Config {
    let config = json!({
        "envoys": envoys,
        "admin": {"listen": "127.0.0.1:0"},
        "pools": [{
            "name": "pool",
            "models": ["m"],
            "eds_file": "eds.json",
            "workers_file": "workers.yaml",
            "drain_ms": 300,
            "probe": {"interval_ms": 100, "timeout_ms": 500},
            "events": {"enabled": false},
        }],
    });
    Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()
}

/// The usual single Envoy on a Unix socket.
pub(crate) fn one_envoy() -> Value {
    json!([{"name": "envoy", "endpoint": "unix:ingest.sock"}])
}

/// A JSON answer of the admin server, whatever its status.
pub(crate) async fn admin(bridge: &Bridge, path: &str) -> Result<Value, String> {
    let address = WorkerAddress::parse(&bridge.admin_address().to_string()).unwrap();
    let body = WorkerClient::new(&address, PATIENCE).get(path).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// The text of `/metrics`.
pub(crate) async fn metrics(bridge: &Bridge) -> String {
    let address = WorkerAddress::parse(&bridge.admin_address().to_string()).unwrap();
    let body = WorkerClient::new(&address, PATIENCE).get("/metrics").await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Looks again and again until `find` finds something; how long that took.
pub(crate) async fn until<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(found) = find().await {
            return (found, start.elapsed());
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Endpoints in an endpoint file, with whether each is draining.
pub(crate) fn endpoints(path: &Path) -> Vec<(String, bool)> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let file: Value = serde_json::from_str(&text).unwrap();
    let localities = file["resources"][0]["endpoints"].as_array().unwrap();
    let endpoints = localities.iter().flat_map(|locality| locality["lb_endpoints"].as_array().unwrap());
    endpoints
        .map(|entry| {
            let socket = &entry["endpoint"]["address"]["socket_address"];
            let address = format!("{}:{}", socket["address"].as_str().unwrap(), socket["port_value"]);
            (address, entry["health_status"] == "DRAINING")
        })
        .collect()
}

/// A call of the admin server with any method and body; status and JSON answer.
pub(crate) async fn call(bridge: &Bridge, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(bridge.admin_address()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}
