//! The event bridge as a process of its own, so that it can be killed.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use hyper::Request;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::client::{self, Client, Reply};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{paths, ports, wait};

const CONFIG: &str = "bridge.yaml";
/// Holds the port the configuration names.
const ADMIN_PORT: &str = "bridge-admin-port.txt";
const WORKERS: &str = "workers.yaml";
/// Loading a tokenizer and checking it takes a while in a build that is hardly optimised.
const START_LIMIT: Duration = Duration::from_secs(60);

/// One worker as the workers file names it.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// `ip:port`.
    pub address: String,
    /// PUB endpoint of its KV events, and replay endpoint if it has one; `None`: it publishes none.
    pub events: Option<(String, Option<String>)>,
    /// The phase it serves; `None`: not told.
    pub role: Option<&'static str>,
    /// Port of its bootstrap server, if that is told.
    pub bootstrap_port: Option<u16>,
}

/// A running bridge.
#[derive(Debug)]
pub struct Bridge {
    process: Process,
    admin: String,
    client: Client,
}

fn is_usable(worker: &Value) -> bool {
    let targets = worker["targets"].as_array().expect("list of targets");
    worker["health"] == "healthy" && worker["in_target_table"] == true && targets.iter().all(is_followed)
}

/// Whether the target's events, if it has any, are received, and what can be replayed has been.
fn is_followed(target: &Value) -> bool {
    let replayed =
        target["events"]["replay"].is_null() || !["none", "stale"].iter().any(|state| target["state"] == *state);
    target["events"].is_null() || (target["source"]["stream"]["connects"].as_u64() > Some(0) && replayed)
}

impl Worker {
    /// Its entry in the workers file.
    pub fn entry(&self) -> Value {
        let mut entry = match &self.events {
            Some((endpoint, replay)) => {
                json!({"address": self.address, "events": {"endpoint": endpoint, "replay": replay}})
            }
            None => json!({"address": self.address, "events": {"enabled": false}}),
        };
        if let Some(role) = self.role {
            entry["role"] = role.into();
        }
        if let Some(port) = self.bootstrap_port {
            entry["bootstrap"] = json!({"port": port});
        }
        entry
    }
}

/// Writes the workers file, whole and by rename, as an orchestrator would.
pub fn write_workers(scratch: &Scratch, workers: &[Worker]) {
    let entries: Vec<Value> = workers.iter().map(Worker::entry).collect();
    scratch.replace(WORKERS, &json!({"workers": entries}).to_string());
}

/// The bridge's configuration: one pool.
#[derive(Clone, Debug)]
pub struct Config {
    /// Model the pool serves.
    pub model: String,
    /// Folder of its tokenizer; `None`: token-id prompts only.
    pub model_dir: Option<PathBuf>,
    /// Expected block size; `None`: whatever events say.
    pub block_size: Option<u32>,
    /// Members added to the pool; they replace what it has.
    pub pool: Value,
    /// Port of the admin listener; `None`: any.
    pub admin_port: Option<u16>,
}

impl Config {
    /// Writes it to `scratch`, with the workers of the workers file there.
    pub fn write(&self, scratch: &Scratch) {
        let mut pool = json!({
            "name": "pool",
            "models": [self.model],
            "cluster": "workers",
            "eds_file": scratch.path("eds.json"),
            "workers_file": WORKERS,
            "probe": {"interval_ms": 100, "timeout_ms": 1000},
        });
        let fields = pool.as_object_mut().expect("object");
        fields.extend(self.model_dir.iter().map(|dir| ("model_dir".to_owned(), json!(dir))));
        fields.insert("cache_dir".to_owned(), json!("cache"));
        fields.extend(self.block_size.iter().map(|size| ("block_size".to_owned(), json!(size))));
        fields.extend(self.pool.as_object().expect("object").clone());
        let admin = self.admin_port.unwrap_or_else(ports::free);
        scratch.replace(ADMIN_PORT, &admin.to_string());
        let config = json!({
            "envoys": [{"name": "envoy", "endpoint": format!("unix:{}", scratch.path("ingest.sock").display())}],
            "admin": {"listen": format!("127.0.0.1:{admin}")},
            "log": {"filter": "info,event_bridge=debug"},
            "pools": [pool],
        });
        scratch.replace(CONFIG, &config.to_string());
    }
}

impl Bridge {
    /// Starts the bridge on the configuration in `scratch`, and waits until it is ready: every Envoy has a snapshot.
    pub async fn start(scratch: &Scratch) -> Self {
        let mut bridge = Self::launch(scratch).await;
        bridge.ready().await;
        bridge
    }

    /// Starts the bridge and waits until its admin listener answers, ready or not.
    pub async fn launch(scratch: &Scratch) -> Self {
        let mut command = Command::new(paths::program("event-bridge"));
        command.arg("run").arg("--config").arg(scratch.path(CONFIG));
        let mut process = Process::start("bridge", scratch.dir(), &mut command);
        let port = fs::read_to_string(scratch.path(ADMIN_PORT)).expect("configuration was written");
        let admin = format!("http://127.0.0.1:{port}");
        let client = Client::new();
        wait::until("the bridge's admin listener answers", START_LIMIT, || {
            process.expect_running();
            let (client, url) = (client.clone(), format!("{admin}/healthz"));
            async move { client.get(&url).await.ok() }
        })
        .await;
        Self { process, admin, client }
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        let url = format!("{}/readyz", self.admin);
        wait::until("the bridge is ready", START_LIMIT, || {
            self.process.expect_running();
            let (client, url) = (self.client.clone(), url.clone());
            async move { client.get(&url).await.ok().filter(|reply| reply.status == 200) }
        })
        .await;
    }

    /// A JSON document of its admin API.
    pub async fn get(&self, path: &str) -> Value {
        self.client.get(&format!("{}{path}", self.admin)).await.expect("bridge").expect_ok().json()
    }

    /// Runs a command of the program against this bridge. Standard input is `input`.
    pub async fn command(&self, arguments: &[&str], input: &str) -> Output {
        let admin = self.admin.strip_prefix("http://").expect("URL");
        let mut command = Command::new(paths::program("event-bridge"));
        command.args(arguments).args(["--admin", admin]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).await.expect("it reads");
        drop(stdin);
        child.wait_with_output().await.expect("it ends")
    }

    /// Puts a policy document in force, and waits until every Envoy thread that has routed before runs it.
    pub async fn put_policy(&self, document: &Value) {
        let reply = self.try_policy(document, "?wait_ms=5000").await.expect_ok().json();
        // Threads that have not routed yet have not said what they run; they read the document at their first request.
        assert!(matches!(reply["envoys"][0]["policy"].as_str(), Some("running" | "unknown")), "{reply}");
    }

    /// Evaluates a policy document beside the one in force, for every request.
    pub async fn put_shadow(&self, document: &Value) {
        let request = Request::put(format!("{}/policy/shadow?sample=1", self.admin));
        let request = request.body(client::full(document.to_string())).expect("URL");
        self.client.send(request).await.expect("bridge").expect_ok();
        wait::until("Envoy has the shadow", START_LIMIT, async || {
            let shown = self.get("/policy").await;
            (shown["envoys"][0]["holds"] == shown["published"]).then_some(())
        })
        .await;
    }

    /// The answer to a policy document; `query` is empty or begins with `?`.
    pub async fn try_policy(&self, document: &Value, query: &str) -> Reply {
        let request = Request::put(format!("{}/policy{query}", self.admin)).body(client::full(document.to_string()));
        self.client.send(request.expect("URL")).await.expect("bridge")
    }

    /// Whether exactly `workers` workers are healthy and may be chosen, those with events are followed, and Envoy holds
    /// the table that says so, and the tokenizer if there is one.
    pub async fn has_settled(&self, workers: usize) -> bool {
        let (pools, envoys) = (self.get("/workers").await, self.get("/envoys").await);
        let (pool, envoy) = (&pools["pools"][0], &envoys["envoys"][0]);
        let tokenizer = match pool["tokenizer"]["status"].as_str() {
            Some("not_configured" | "bridge") => true,
            Some("loaded") => envoy["tokenizers"][0] == pool["tokenizer"]["id"],
            Some("loading") => false,
            _ => panic!("no tokenizer: {}", pool["tokenizer"]),
        };
        let listed = pool["workers"].as_array().expect("list of workers");
        listed.len() == workers
            && listed.iter().all(is_usable)
            && tokenizer
            && pool["table_version"] == envoy["tables"][0]
    }

    /// Sum of all series of a metric whose line contains `part`.
    pub async fn metric(&self, name: &str, part: &str) -> f64 {
        let text = self.client.get(&format!("{}/metrics", self.admin)).await.expect("bridge").expect_ok().text();
        let series = text.lines().filter(|line| line.starts_with(name) && line.contains(part));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Fails the test when it has ended by itself.
    pub fn expect_running(&mut self) {
        self.process.expect_running();
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id().expect("the bridge runs")
    }

    /// Everything it has printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Ends it in order.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// Ends it at once.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }
}
