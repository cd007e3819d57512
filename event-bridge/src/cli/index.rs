//! `event-bridge index`: the index of a capture.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use clap::{Args, Subcommand};
use kv_routing::block::BlockSize;
use kv_routing::target::{Slot, Tier};
use serde_json::json;

use super::capture::{self, Captured, Message};
use super::{CliError, input, out};
use crate::engine::{decode_batch, polled_head, split_polled};
use crate::ingest::{Ingest, IngestConfig, SourceSpec};
use crate::stream::StreamEvent;

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge index build --frames capture.jsonl > index.jsonl

The capture's format is that of `events decode`; `worker` in a line tells engines apart, and batches that name a rank
belong to that rank of theirs. Prints one JSON object per block held: `worker`, `rank`, `tier`, `sequence_hash`,
`depth`. The state of every worker and rank goes to standard error.";

#[derive(Debug, Args)]
pub(super) struct IndexArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Apply a capture in the order of its lines and print everything that is held in the end.
    Build(BuildArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Capture; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    frames: PathBuf,
    /// Tokens per block that engines with tiny pages are gathered to.
    #[arg(long, value_name = "TOKENS")]
    block_size: Option<u32>,
}

pub(super) fn index(args: &IndexArgs) -> Result<(), CliError> {
    match &args.command {
        Command::Build(args) => build(args),
    }
}

fn build(args: &BuildArgs) -> Result<(), CliError> {
    let expected_block_size = args
        .block_size
        .map(|size| {
            BlockSize::new(size).ok_or_else(|| CliError::Usage(format!("--block-size: 1 to {}", BlockSize::MAX)))
        })
        .transpose()?;
    let mut building = Building::new(Ingest::new(IngestConfig { expected_block_size, ..IngestConfig::default() }));
    let mut bad = 0;
    input::lines(&args.frames, |number, line| {
        match capture::read(line).and_then(|captured| building.apply(captured)) {
            Ok(()) => Ok(()),
            Err(error) => {
                bad += 1;
                out::note(&format!("line {number}: {error}\n"))
            }
        }
    })?;
    out::print(&building.dump())?;
    out::note(&building.summary())?;
    capture::bad_lines(bad)
}

/// Whose events they are: what the capture calls the worker, and the rank that its batches name.
type Source = (String, Option<u32>);

/// An index that is being built.
struct Building {
    ingest: Ingest,
    /// Targets, and the number that a payload without one has.
    targets: BTreeMap<Source, (Slot, u64)>,
}

impl Building {
    fn new(ingest: Ingest) -> Self {
        Self { ingest, targets: BTreeMap::new() }
    }

    /// Applies a message as if it had been received live. A payload without a sequence number follows its predecessor.
    fn apply(&mut self, captured: Captured) -> Result<(), String> {
        let Captured { worker, topic: _, seq, message } = captured;
        let worker = worker.unwrap_or_default();
        match message {
            Message::Batch(payload) => {
                // What does not decode is the target's business, if it has only one.
                let rank = decode_batch(&payload, |_| ()).ok().and_then(|info| info.rank);
                self.give((worker, rank), false, seq, Bytes::from(payload))
            }
            Message::Polled(answer) => {
                let answer = Bytes::from(answer);
                for event in split_polled(&answer).map_err(|error| error.to_string())? {
                    let (seq, rank) = polled_head(event).map_err(|error| error.to_string())?;
                    self.give((worker.clone(), rank), true, Some(seq), answer.slice_ref(event.as_bytes()))?;
                }
                Ok(())
            }
            Message::EndOfReplay | Message::ReplayRequest(_) | Message::Load(_) => Ok(()),
            Message::Relay(_) => {
                Err("Dynamo's event plane has no tokens: capture what the engine publishes".to_owned())
            }
        }
    }

    fn give(&mut self, source: Source, polled: bool, seq: Option<u64>, payload: Bytes) -> Result<(), String> {
        let now = Instant::now();
        let slot = self.targets.len();
        let (slot, next) = match self.targets.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let slot = Slot(u16::try_from(slot).map_err(|_| "more workers and ranks than slots")?);
                let spec = SourceSpec { polled, rank: new.key().1, ..SourceSpec::default() };
                self.ingest.add_target(slot, spec);
                self.ingest.handle(slot, StreamEvent::Connected, now);
                new.insert((slot, 0))
            }
        };
        let seq = seq.unwrap_or(*next);
        *next = seq.saturating_add(1);
        self.ingest.handle(*slot, StreamEvent::Live { seq, payload, received: now }, now);
        Ok(())
    }

    fn dump(&self) -> String {
        let names: BTreeMap<Slot, &Source> = self.targets.iter().map(|(source, (slot, _))| (*slot, source)).collect();
        let mut lines = Vec::new();
        self.ingest.index().for_each_holder(|slot, tier, block, depth| {
            let tier = match tier {
                Tier::Device => "device",
                Tier::Host => "host",
                Tier::Disk => "disk",
            };
            let Some((worker, rank)) = names.get(&slot) else { return };
            let (hash, rank) = (block.to_string(), *rank);
            let mut line =
                json!({ "worker": worker, "rank": rank, "tier": tier, "sequence_hash": hash, "depth": depth });
            if let Some(members) = line.as_object_mut().filter(|_| rank.is_none()) {
                members.retain(|name, _| name != "rank");
            }
            lines.push(format!("{line}\n"));
        });
        // The index has no order of its own; two dumps should compare.
        lines.sort_unstable();
        lines.concat()
    }

    fn summary(&self) -> String {
        let size = self.ingest.block_size().map_or_else(|| "unknown".to_owned(), |size| size.tokens().to_string());
        let stats = self.ingest.index().stats();
        let mut text = format!("block size {size}, {} blocks, {} runs\n", stats.blocks, stats.runs);
        for ((name, rank), (slot, _)) in &self.targets {
            let Some(report) = self.ingest.report(*slot) else { continue };
            let name = if name.is_empty() { "worker" } else { name };
            let name = rank.map_or_else(|| name.to_owned(), |rank| format!("{name}, rank {rank}"));
            text.push_str(&format!(
                "{name}: {} ({}), {} batches, {} stored, {} removed, {} undecodable\n",
                report.state.as_str(),
                report.reason.as_str(),
                report.batches,
                report.stored_blocks,
                report.removed_blocks,
                report.undecodable,
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests;
