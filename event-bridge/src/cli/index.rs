//! `event-bridge index`: the index of a capture.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use clap::{Args, Subcommand};
use kv_routing::block::BlockSize;
use kv_routing::target::{Slot, Tier};
use serde_json::json;

use super::capture::{self, Captured};
use super::{CliError, input, out};
use crate::ingest::{Ingest, IngestConfig, SourceSpec};
use crate::stream::StreamEvent;

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge index build --frames capture.jsonl > index.jsonl

The capture's format is that of `events decode`; `worker` in a line tells engines apart. Prints one JSON object per
block held: `worker`, `tier`, `sequence_hash`, `depth`. The state of every worker goes to standard error.";

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

/// An index that is being built.
struct Building {
    ingest: Ingest,
    workers: BTreeMap<String, (Slot, u64)>,
}

impl Building {
    fn new(ingest: Ingest) -> Self {
        Self { ingest, workers: BTreeMap::new() }
    }

    /// Applies a message as if it had been received live. A payload without a sequence number follows its predecessor.
    fn apply(&mut self, captured: Captured) -> Result<(), String> {
        let Captured { worker, topic: _, seq, payload } = captured;
        let Some(payload) = payload else { return Ok(()) };
        let now = Instant::now();
        let worker = worker.unwrap_or_default();
        if !self.workers.contains_key(&worker) {
            let slot = Slot(u16::try_from(self.workers.len()).map_err(|_| "more workers than slots")?);
            self.ingest.add_target(slot, SourceSpec::default());
            self.ingest.handle(slot, StreamEvent::Connected, now);
            self.workers.insert(worker.clone(), (slot, 0));
        }
        let Some((slot, next)) = self.workers.get_mut(&worker) else { return Ok(()) };
        let seq = seq.unwrap_or(*next);
        *next = seq.saturating_add(1);
        let event = StreamEvent::Live { seq, payload: Bytes::from(payload), received: now };
        self.ingest.handle(*slot, event, now);
        Ok(())
    }

    fn dump(&self) -> String {
        let names: BTreeMap<Slot, &str> = self.workers.iter().map(|(name, (slot, _))| (*slot, name.as_str())).collect();
        let mut lines = Vec::new();
        self.ingest.index().for_each_holder(|slot, tier, block, depth| {
            let tier = match tier {
                Tier::Device => "device",
                Tier::Host => "host",
                Tier::Disk => "disk",
            };
            let worker = names.get(&slot).copied().unwrap_or_default();
            let line = json!({ "worker": worker, "tier": tier, "sequence_hash": block.to_string(), "depth": depth });
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
        for (name, (slot, _)) in &self.workers {
            let Some(report) = self.ingest.report(*slot) else { continue };
            let name = if name.is_empty() { "worker" } else { name };
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
mod tests {
    use super::*;

    /// A real engine's traffic: what the index holds is what its events left standing, by plain sets.
    #[test]
    fn recorded_traffic_leaves_what_its_events_left() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/vllm-real-frames.jsonl");
        let mut building = Building::new(Ingest::new(IngestConfig::default()));
        let mut held = std::collections::BTreeSet::new();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            building.apply(capture::read(line).unwrap()).unwrap();
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            if record["seq"] == 0 {
                // Another engine process, with an empty cache.
                held.clear();
            }
            for event in record["decoded"][1].as_array().unwrap() {
                let hashes = event["block_hashes"].as_array().into_iter().flatten().map(|hash| hash.to_string());
                match event["type"].as_str().unwrap() {
                    "BlockStored" => held.extend(hashes),
                    "BlockRemoved" => held = &held - &hashes.collect(),
                    _ => held.clear(),
                }
            }
        }
        assert!(!held.is_empty());
        assert_eq!(building.dump().lines().count(), held.len());
        assert!(building.summary().contains("block size 32"), "{}", building.summary());
    }
}
