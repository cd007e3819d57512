//! A real Envoy on a checked-in configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::client::Client;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{paths, wait};

/// The module is compiled before Envoy listens, on a machine that may be busy.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often Envoy writes its access log.
const LOG_FLUSH: &str = "20";

/// How to start Envoy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Configuration, a path from the repository's root.
    pub config: &'static str,
    /// Module that it loads.
    pub wasm: PathBuf,
    /// Text replaced in the configuration; each must occur in it.
    pub edits: Vec<(String, String)>,
    /// Worker threads.
    pub concurrency: u32,
    /// Port of the bridge's admin listener; `None`: nothing listens where the configuration says.
    pub bridge_port: Option<u16>,
    /// Ports as the configuration has them, instead of ports chosen by the kernel.
    pub fixed_ports: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            config: "envoy/envoy.yaml",
            wasm: paths::filter_wasm(),
            edits: Vec::new(),
            concurrency: 2,
            bridge_port: None,
            fixed_ports: false,
        }
    }
}

impl Options {
    /// The same configuration with the filter switched off: the cluster's fallback policy alone decides.
    pub fn without_filter() -> Self {
        Self::default().edit("- name: kv-router\n", "- name: kv-router\n            disabled: true\n")
    }

    /// The same with round robin for a fallback policy.
    pub fn round_robin() -> Self {
        Self::without_filter()
            .edit("envoy.load_balancing_policies.least_request", "envoy.load_balancing_policies.round_robin")
            .edit("least_request.v3.LeastRequest", "round_robin.v3.RoundRobin")
    }

    /// The same with every connection given to the worker thread that has fewest, so that each has its share of few connections,
    /// and with the threads' statistics under `listener.ingress.`.
    pub fn spread_connections() -> Self {
        let balance = "connection_balance_config: { exact_balance: {} }";
        Self::default()
            .edit("- name: ingress\n", &format!("- name: ingress\n    stat_prefix: ingress\n    {balance}\n"))
    }

    /// Replaces `from`, which must occur, by `to`.
    pub fn edit(mut self, from: &str, to: &str) -> Self {
        self.edits.push((from.to_owned(), to.to_owned()));
        self
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    /// Base URL of the ingress listener.
    pub url: String,
    admin: String,
    client: Client,
}

impl Envoy {
    /// Starts Envoy in `scratch`, where the ingest socket and the EDS file lie too, and waits until it is ready.
    pub async fn start(scratch: &Scratch, options: &Options) -> Self {
        let config = scratch.path("envoy.yaml");
        fs::write(&config, configuration(scratch.dir(), options)).expect("write configuration");
        let admin_file = scratch.path("envoy-admin.txt");
        if admin_file.exists() {
            fs::remove_file(&admin_file).expect("remove the address of an earlier life");
        }
        let mut command = Command::new(paths::envoy());
        command.arg("--config-path").arg(&config).arg("--admin-address-path").arg(&admin_file);
        command.args(["--use-dynamic-base-id", "--log-level", "warn", "--file-flush-interval-msec", LOG_FLUSH]);
        command.arg("--concurrency").arg(options.concurrency.to_string());
        let mut process = Process::start("envoy", scratch.dir(), &mut command);
        let client = Client::new();
        let (admin, _) = wait::until("Envoy is ready", START_LIMIT, || {
            process.expect_running();
            ready_admin(&admin_file, client.clone())
        })
        .await;
        let url = ingress(&admin, &client).await;
        Self { process, url, admin, client }
    }

    /// URL of an ingress path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// One counter or gauge by the end of its name; zero while nothing has written it.
    pub async fn stat(&self, name: &str) -> u64 {
        let reply = self.client.get(&format!("{}/stats?format=json", self.admin)).await.expect("stats").expect_ok();
        let stats = reply.json();
        let stats = stats["stats"].as_array().expect("list of stats");
        let named = stats.iter().filter(|stat| stat["name"].as_str().is_some_and(|full| full.ends_with(name)));
        named.filter_map(|stat| stat["value"].as_u64()).sum()
    }

    /// All access-log lines so far.
    pub fn access_log(&self) -> Vec<String> {
        // The last line may be half written.
        let output = self.process.output();
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter(|line| line.contains(" kv=")).map(str::to_owned).collect()
    }

    /// File with everything Envoy has printed, its access log too.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Everything Envoy has printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id().expect("Envoy runs")
    }

    /// Fails the test when Envoy has ended by itself.
    pub fn expect_running(&mut self) {
        self.process.expect_running();
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

/// The checked-in configuration with local paths, kernel-chosen ports and the test's edits.
fn configuration(dir: &Path, options: &Options) -> String {
    let source = paths::repository().join(options.config);
    let mut text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    for (from, to) in &options.edits {
        assert!(text.contains(from.as_str()), "{} does not contain {from:?}", source.display());
        text = text.replace(from.as_str(), to);
    }
    text = text.replace("/etc/kv-router/filter.wasm", &options.wasm.display().to_string());
    text = text.replace("/run/kv-router/", &format!("{}/", dir.display()));
    if !options.fixed_ports {
        text = text.replace("port_value: 10000", "port_value: 0").replace("port_value: 9901", "port_value: 0");
    }
    if let Some(port) = options.bridge_port {
        text = text.replace("port_value: 9902", &format!("port_value: {port}"));
    }
    text
}

async fn ready_admin(file: &Path, client: Client) -> Option<String> {
    // Envoy writes the file in place, so it may be read half written.
    let address: SocketAddr = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let admin = format!("http://{address}");
    let reply = client.get(&format!("{admin}/ready")).await.ok()?;
    (reply.status == 200).then_some(admin)
}

async fn ingress(admin: &str, client: &Client) -> String {
    let reply = client.get(&format!("{admin}/listeners?format=json")).await.expect("listeners").expect_ok();
    let listeners: Value = reply.json();
    let statuses = listeners["listener_statuses"].as_array().expect("list of listeners");
    let ingress = statuses.iter().find(|status| status["name"] == "ingress").expect("ingress listener");
    let socket = &ingress["local_address"]["socket_address"];
    format!("http://{}:{}", socket["address"].as_str().expect("address"), socket["port_value"])
}
