//! `event-bridge events`: decode captures, follow a live engine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kv_routing::target::Slot;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{CliError, capture, input, out, run};
use crate::config::{LogConfig, LogFormat};
use crate::engine::{decode_batch, describe};
use crate::stream::{self, ReplayId, StreamEvent, StreamSpec};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge events decode --input capture.jsonl
  echo 93cb41da556e402000009080 | event-bridge events decode
  event-bridge events tail tcp://10.0.0.11:5557 --replay tcp://10.0.0.11:5657

A capture has one JSON object per line: {\"frames\": [hex, ...]} with the frames of one ZMQ message, live or from a
replay, or {\"payload_hex\": hex}; a line of nothing but hexadecimal is a payload.
Prints one JSON object per message: `seq`, `time`, `events`, and `faults` for events that cannot be used; a message
that does not decode gives `error`.";

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
        let result = capture::read(line).and_then(|captured| {
            let head = json!({ "topic": captured.topic, "seq": captured.seq, "worker": captured.worker });
            match &captured.payload {
                Some(payload) => batch(head, payload),
                None => Ok(json!({ "end_of_replay": true })),
            }
        });
        let value = result.unwrap_or_else(|error| {
            bad += 1;
            json!({ "line": number, "error": error })
        });
        out::print(&format!("{value}\n"))
    })?;
    capture::bad_lines(bad)
}

/// `head` with what the batch in `payload` says; absent members left out.
fn batch(head: Value, payload: &[u8]) -> Result<Value, String> {
    let (mut events, mut faults) = (Vec::new(), Vec::new());
    let decoded = decode_batch(payload, |event| match event {
        Ok(event) => events.push(describe(&event)),
        Err(fault) => faults.push(fault.to_string()),
    });
    let info = decoded.map_err(|error| error.to_string())?;
    let mut object = match head {
        Value::Object(object) => object,
        _ => serde_json::Map::new(),
    };
    object.insert("time".to_owned(), json!(info.time));
    object.insert("rank".to_owned(), json!(info.rank));
    object.retain(|_, value| !value.is_null());
    object.insert("events".to_owned(), events.into());
    if !faults.is_empty() {
        object.insert("faults".to_owned(), faults.into());
    }
    Ok(Value::Object(object))
}

fn tail(args: TailArgs) -> Result<(), CliError> {
    run::start_logging(&LogConfig { filter: "info".to_owned(), format: LogFormat::Text }, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| CliError::System { what: "cannot start the runtime", source })?;
    runtime.block_on(follow(args))
}

async fn follow(args: TailArgs) -> Result<(), CliError> {
    let TailArgs { endpoint, replay, topic } = args;
    let has_replay = replay.is_some();
    let spec = StreamSpec { replay_endpoint: replay, topic, ..StreamSpec::connect(endpoint.clone()) };
    let (tx, mut rx) = mpsc::channel(1024);
    let handle = stream::spawn(Slot(0), spec, tx);
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
    let value = batch(json!({ "source": source, "seq": seq }), payload)
        .unwrap_or_else(|error| json!({ "source": source, "seq": seq, "error": error }));
    out::print(&format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_shown_with_its_events_and_the_faults_beside_them() {
        // [1.0, [["AllBlocksCleared"], ["Other"]]]
        let payload = [
            &[0x92, 0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x92, 0x91, 0xb0][..],
            b"AllBlocksCleared",
            &[0x91, 0xa5],
            b"Other",
        ]
        .concat();
        let shown = batch(json!({ "seq": 3, "topic": null }), &payload).unwrap();
        assert_eq!(shown["events"], json!([{ "type": "AllBlocksCleared" }]));
        assert_eq!((shown["seq"].as_u64(), shown["time"].as_f64(), shown.get("topic")), (Some(3), Some(1.0), None));
        assert!(shown["faults"][0].as_str().unwrap().contains("Other"), "{shown}");
        assert!(batch(json!({}), &payload[..5]).is_err());
    }
}
