//! `event-bridge events`: decode captures, follow a live engine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kv_routing::target::Slot;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{CliError, capture, input, messages, out, run};
use crate::config::{LogConfig, LogFormat};
use crate::stream::{self, ReplayId, Sharing, StreamEvent, StreamSpec};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge events decode --input capture.jsonl
  echo 93cb41da556e402000009080 | event-bridge events decode
  event-bridge events tail tcp://10.0.0.11:5557 --replay tcp://10.0.0.11:5657
  event-bridge events tail --bind tcp://*:5557

A capture has one JSON object per line: {\"frames\": [hex, ...]} with the frames of one ZMQ message, live, from a
replay, of SGLang's load socket or of Dynamo's event plane, or {\"payload_hex\": hex}; a line of nothing but
hexadecimal is a payload, a JSON array is TensorRT-LLM's answer to POST /kv_cache_events.
Prints one JSON object per message: `seq`, `time`, `events`, and `faults` for events that cannot be used; `polled`,
`load`, `relayed`, `replay_request` and `end_of_replay` for what else there is; a message that does not decode gives
`error`.";

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Decode captured messages; fails at the end when one did not decode.
    Decode(DecodeArgs),
    /// Follow a live engine until interrupted.
    Tail(TailArgs),
}

#[derive(Debug, Args)]
struct DecodeArgs {
    /// Capture; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
}

#[derive(Debug, Args)]
struct TailArgs {
    /// Endpoint of the engine's PUB socket.
    #[arg(value_name = "URL")]
    endpoint: String,
    /// Wait there for an engine that connects, as those do that are told an address instead of a wildcard.
    #[arg(long)]
    bind: bool,
    /// Endpoint of its replay socket: begin with what it still has.
    #[arg(long, value_name = "URL")]
    replay: Option<String>,
    /// Topic to subscribe to; every topic by default.
    #[arg(long, value_name = "TOPIC", default_value = "")]
    topic: String,
}

pub(super) fn events(args: EventsArgs) -> Result<(), CliError> {
    match args.command {
        Command::Decode(args) => decode(&args),
        Command::Tail(args) => tail(args),
    }
}

fn decode(args: &DecodeArgs) -> Result<(), CliError> {
    let mut bad = 0;
    input::lines(&args.input, |number, line| {
        let result = capture::read(line).and_then(|captured| messages::captured(&captured));
        let value = result.unwrap_or_else(|error| {
            bad += 1;
            json!({ "line": number, "error": error })
        });
        out::print(&format!("{value}\n"))
    })?;
    capture::bad_lines(bad)
}

fn tail(args: TailArgs) -> Result<(), CliError> {
    run::start_logging(&LogConfig { filter: "info".to_owned(), format: LogFormat::Text }, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| CliError::System { what: "cannot start the runtime", source })?;
    runtime.block_on(follow(args))
}

async fn follow(args: TailArgs) -> Result<(), CliError> {
    let TailArgs { endpoint, bind, replay, topic } = args;
    let has_replay = replay.is_some();
    let spec = StreamSpec { replay_endpoint: replay, topic, bind, ..StreamSpec::connect(endpoint.clone()) };
    let (tx, mut rx) = mpsc::channel(1024);
    let handle = stream::spawn(Slot(0), spec, &Sharing::default(), tx);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut replays = 0;
    loop {
        let event = tokio::select! {
            event = rx.recv() => event,
            _ = &mut interrupted => return Ok(()),
        };
        let Some((_, event)) = event else { return Ok(()) };
        match event {
            StreamEvent::Connected => {
                info!(endpoint, "connected");
                if has_replay {
                    replays += 1;
                    handle.replay(ReplayId(replays), 0);
                }
            }
            StreamEvent::Disconnected { reason } => warn!(endpoint, reason, "disconnected"),
            StreamEvent::Undecodable { reason } => warn!(endpoint, reason, "message dropped"),
            StreamEvent::AnswerLost { reason } => warn!(endpoint, reason, "answer lost"),
            StreamEvent::PeerChanged { peer } => warn!(endpoint, %peer, "another peer"),
            StreamEvent::ReplayEnd { complete, .. } => info!(endpoint, complete, "replay ended"),
            StreamEvent::Live { seq, payload, .. } => show("live", seq, &payload)?,
            StreamEvent::Replayed { seq, payload, .. } => show("replay", seq, &payload)?,
        }
    }
}

fn show(source: &str, seq: u64, payload: &[u8]) -> Result<(), CliError> {
    let value = messages::batch(json!({ "source": source, "seq": seq }), payload)
        .unwrap_or_else(|error| json!({ "source": source, "seq": seq, "error": error }));
    out::print(&format!("{value}\n"))
}
