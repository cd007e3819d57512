//! Envoy, bridge and two simulated engines on this machine, until Ctrl-C; `make run` starts it.
//!
//! `WORKERS="ip:port ip:port"` uses real engines instead; then `MODEL` is the model name they serve and `MODEL_DIR` the
//! folder with its tokenizer, and `EVENTS_PORT` and `REPLAY_PORT` are where they publish.
//!
//! `PROTOCOL=nixl|mooncake|sglang|trtllm` serves disaggregated, by two simulated engines for prefill and two for decode;
//! `make run-disagg` starts it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a developer's tool: whatever goes wrong ends it, and it talks to a terminal"
)]

use std::env;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::bridge::{self, Bridge, Worker};
use e2e::decision::LogLine;
use e2e::disagg;
use e2e::engine::{self, Engine};
use e2e::envoy::{self, Envoy};
use e2e::paths;
use e2e::scratch::Scratch;
use mock_engine::{EngineConfig, EventsConfig, PdProtocol, Role, Speed, TransferConfig};
use serde_json::{Value, json};

const BRIDGE_ADMIN_PORT: u16 = 9902;
const FIRST_HTTP_PORT: u16 = 8101;
const FIRST_EVENTS_PORT: u16 = 5601;
const FIRST_REPLAY_PORT: u16 = 5701;
/// About what a GPU of the middle class does for an 8B model.
const SPEED: Speed = Speed { prefill_tokens_per_s: 10_000.0, decode_ms_per_token: 15.0, speedup: 1.0 };
const SIMULATED_MODEL: &str = "qwen3";
const LOG_PERIOD: Duration = Duration::from_millis(50);

/// What requests are routed to.
struct Workers {
    model: String,
    model_dir: PathBuf,
    list: Vec<Worker>,
    /// Configuration in `envoy/`.
    envoy: envoy::Options,
    /// Members of the bridge's pool.
    pool: Value,
    /// Kept alive.
    _simulated: Vec<Engine>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let protocol = match env::var("PROTOCOL") {
        Ok(name) => Some(serde_json::from_value(name.clone().into()).with_context(|| format!("PROTOCOL={name}"))?),
        Err(_) => None,
    };
    let workers = match env::var("WORKERS") {
        Ok(addresses) => real(&addresses)?,
        Err(_) => simulated(protocol).await,
    };
    let scratch = Scratch::at(paths::repository().join(".run"));
    for file in ["eds.json", "prefill-eds.json"] {
        scratch.replace(file, &json!({"resources": []}).to_string());
    }
    bridge::write_workers(&scratch, &workers.list);
    let config = bridge::Config {
        model: workers.model.clone(),
        model_dir: Some(workers.model_dir.clone()),
        block_size: None,
        pool: workers.pool.clone(),
        admin_port: Some(BRIDGE_ADMIN_PORT),
    };
    config.write(&scratch);
    let options = envoy::Options { fixed_ports: true, ..workers.envoy.clone() };
    let (mut envoy, mut bridge) = tokio::join!(Envoy::start(&scratch, &options), Bridge::launch(&scratch));
    // Before that a first request would find no state and be left to Envoy.
    bridge.ready().await;
    introduce(&envoy, &workers, scratch.dir());

    tokio::select! {
        ended = stop_signal() => ended?,
        failed = follow(&mut envoy, &mut bridge) => failed?,
    }
    println!("\nstopping");
    tokio::join!(envoy.stop(), bridge.stop());
    Ok(())
}

/// Which phase each simulated engine serves.
fn roles(protocol: Option<PdProtocol>) -> Vec<Role> {
    match protocol {
        None => vec![Role::Both; 2],
        Some(_) => vec![Role::Prefill, Role::Prefill, Role::Decode, Role::Decode],
    }
}

async fn simulated(protocol: Option<PdProtocol>) -> Workers {
    let mut engines = Vec::new();
    for (number, role) in (0..).zip(roles(protocol)) {
        let events = EventsConfig {
            endpoint: format!("tcp://127.0.0.1:{}", FIRST_EVENTS_PORT + number),
            replay_endpoint: Some(format!("tcp://127.0.0.1:{}", FIRST_REPLAY_PORT + number)),
            ..EventsConfig::default()
        };
        let config = EngineConfig {
            served_model_names: vec![SIMULATED_MODEL.into()],
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: FIRST_HTTP_PORT + number,
            events: Some(events),
            speed: SPEED,
            transfer: TransferConfig { role, protocol: protocol.unwrap_or_default(), ..TransferConfig::default() },
            ..engine::config()
        };
        engines.push(Engine::start(config).await);
    }
    let (envoy, pool) = protocol.map_or_else(
        || (envoy::Options::default(), json!({})),
        |protocol| (disagg::envoy(protocol), disagg::pool(protocol)),
    );
    Workers {
        envoy,
        model: SIMULATED_MODEL.into(),
        model_dir: paths::model_dir("qwen3"),
        list: engines.iter().map(Engine::worker).collect(),
        pool,
        _simulated: engines,
    }
}

fn real(addresses: &str) -> Result<Workers> {
    let port = |name: &str, default: u16| match env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is no port")),
        Err(_) => Ok(default),
    };
    let (events, replay) = (port("EVENTS_PORT", 5557)?, port("REPLAY_PORT", 5657)?);
    let worker = |address: &str| {
        let (ip, _) = address.rsplit_once(':').with_context(|| format!("{address} is not ip:port"))?;
        let endpoints = (format!("tcp://{ip}:{events}"), Some(format!("tcp://{ip}:{replay}")));
        Ok(Worker { address: address.to_owned(), events: Some(endpoints), ..Worker::default() })
    };
    let list = addresses.split([' ', ',']).filter(|address| !address.is_empty()).map(worker);
    Ok(Workers {
        envoy: envoy::Options::default(),
        model: env::var("MODEL").context("WORKERS needs MODEL, the name by which the engines serve their model")?,
        model_dir: env::var("MODEL_DIR").context("WORKERS needs MODEL_DIR, the folder of its tokenizer.json")?.into(),
        list: list.collect::<Result<_>>()?,
        pool: json!({}),
        _simulated: Vec::new(),
    })
}

fn introduce(envoy: &Envoy, workers: &Workers, dir: &Path) {
    let prompt = |question: &str| {
        json!({"model": workers.model, "max_tokens": 16, "messages": [
            {"role": "system", "content": "You are a patient librarian who answers in one short sentence. ".repeat(20)},
            {"role": "user", "content": question},
        ]})
    };
    println!("\n{} serves model {:?} by:", envoy.url, workers.model);
    for worker in &workers.list {
        println!("  {} {}", worker.address, worker.role.unwrap_or_default());
    }
    println!("bridge: http://127.0.0.1:{BRIDGE_ADMIN_PORT}/workers   logs and configurations: {}\n", dir.display());
    println!("Try, one after the other; the second goes where the first is cached:\n");
    for question in ["Where are the maps?", "And the atlases?"] {
        let body = prompt(question);
        println!("curl -s {} -H 'content-type: application/json' -d '{body}'\n", envoy.url("/v1/chat/completions"));
    }
    println!("Each request, as it ends (Ctrl-C stops everything):");
}

/// Prints a line for each request until one of the processes ends by itself.
async fn follow(envoy: &mut Envoy, bridge: &mut Bridge) -> Result<()> {
    let mut log = File::open(envoy.log())?;
    log.seek(SeekFrom::End(0))?;
    let mut unfinished = String::new();
    loop {
        tokio::time::sleep(LOG_PERIOD).await;
        envoy.expect_running();
        bridge.expect_running();
        log.read_to_string(&mut unfinished)?;
        while let Some((line, rest)) = unfinished.split_once('\n') {
            if line.contains(" kv=") {
                println!("{}", summary(&LogLine::parse(line)));
            }
            unfinished = rest.to_owned();
        }
    }
}

fn summary(line: &LogLine) -> String {
    let Some(decision) = &line.decision else {
        let reason = line.unrouted.as_deref().unwrap_or("no inference path");
        return format!("{}  {}  {}  not routed: {reason}", line.status, line.upstream, line.path);
    };
    let runner_up = decision
        .runner_up
        .as_ref()
        .map_or_else(String::new, |second| format!("  runner-up {} cost {}", second.target, second.cost));
    let cached = line.cached.map_or_else(String::new, |tokens| format!("  engine found {tokens} tokens cached"));
    let prefill = match (&decision.handoff, &decision.whole) {
        (Some(handoff), _) => format!(
            "  prefilled by {} with {} of {} blocks cached in {} ms",
            handoff.prefill,
            handoff.overlap.total(),
            decision.blocks,
            handoff.wait_us / 1000
        ),
        (None, Some(why)) => format!("  served whole: {why}"),
        (None, None) => String::new(),
    };
    format!(
        "{}  {}{prefill}  overlap {} of {} blocks ({})  cost {}{runner_up}{cached}  {} ms",
        line.status,
        line.upstream,
        decision.overlap.total(),
        decision.blocks,
        decision.rung,
        decision.cost.total,
        line.millis,
    )
}

async fn stop_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
