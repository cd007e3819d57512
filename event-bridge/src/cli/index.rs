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
mod tests {
    use std::collections::HashMap;

    use kv_routing::block::{HashSeed, SequenceHash, TokenId, extend, local_hash};
    use serde_json::Value;

    use super::*;

    /// What the events of a recording leave, line by line as it is printed: by plain maps, from the recording's own decoding.
    #[derive(Default)]
    struct Book {
        /// Own name, depth and salt by the engine's name.
        blocks: HashMap<u64, (SequenceHash, u32, Option<String>)>,
        held: Vec<u64>,
    }

    impl Book {
        fn apply(&mut self, event: &Value) {
            let hashes = event["block_hashes"].as_array().into_iter().flatten().map(|hash| hash.as_u64().unwrap());
            match event["type"].as_str().unwrap() {
                "BlockStored" => self.store(event, hashes.collect()),
                "BlockRemoved" => hashes.for_each(|hash| {
                    let at = self.held.iter().position(|held| *held == hash).unwrap();
                    self.held.swap_remove(at);
                }),
                _ => self.held.clear(),
            }
        }

        fn store(&mut self, event: &Value, hashes: Vec<u64>) {
            let number = |id: &Value| TokenId(id.as_u64().unwrap() as u32);
            let tokens: Vec<TokenId> = event["token_ids"].as_array().unwrap().iter().map(number).collect();
            let mut before = event["parent_block_hash"].as_u64().map(|parent| self.blocks[&parent].clone());
            let first_key = || event["extra_keys"][0][0].as_str().map(str::to_owned);
            let salt = before.as_ref().map_or_else(first_key, |(.., salt)| salt.clone());
            let seed = HashSeed::new(None, salt.as_deref());
            for (hash, tokens) in hashes.into_iter().zip(tokens.chunks(event["block_size"].as_u64().unwrap() as usize))
            {
                let name = extend(before.as_ref().map(|(name, ..)| *name), local_hash(tokens, seed));
                let block = (name, before.map_or(0, |(_, depth, _)| depth + 1), salt.clone());
                self.blocks.insert(hash, block.clone());
                self.held.push(hash);
                before = Some(block);
            }
        }

        fn dump(&self, worker: &str) -> Vec<Value> {
            let line = |hash: &u64| {
                let (name, depth, _) = &self.blocks[hash];
                json!({ "worker": worker, "rank": 0, "tier": "device", "sequence_hash": name.to_string(), "depth": depth })
            };
            let mut lines: Vec<Value> = self.held.iter().map(line).collect();
            lines.sort_unstable_by_key(Value::to_string);
            lines.dedup();
            lines
        }
    }

    fn recording() -> Vec<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/vllm-real-frames.jsonl");
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    fn lines(dump: &str) -> Vec<Value> {
        dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn recorded_traffic_leaves_what_its_events_left() {
        let mut building = Building::new(Ingest::new(IngestConfig::default()));
        let mut book = Book::default();
        for line in recording() {
            building.apply(capture::read(&line).unwrap()).unwrap();
            let record: Value = serde_json::from_str(&line).unwrap();
            if record["seq"] == 0 {
                // Another engine process, with an empty cache.
                book.held.clear();
            }
            record["decoded"][1].as_array().unwrap().iter().for_each(|event| book.apply(event));
        }
        let worker = book.dump("");
        assert!(worker.len() > 10 && worker.iter().any(|line| line["depth"].as_u64() > Some(2)), "{worker:?}");
        assert_eq!(lines(&building.dump()), worker);
        assert!(building.summary().contains("block size 32"), "{}", building.summary());
    }

    /// A store of one block of 32 tokens, and the rank in the batch.
    fn batch(rank: u8, hash: u8) -> String {
        let tokens = format!("{hash:02x}").repeat(32);
        format!("93cb000000000000000091 96ab426c6f636b53746f726564 91{hash:02x} c0 dc0020{tokens} 20 c0 {rank:02x}")
            .replace(' ', "")
    }

    #[test]
    fn ranks_of_a_worker_are_targets_of_their_own() {
        let mut building = Building::new(Ingest::new(IngestConfig::default()));
        // Each rank has numbers of its own.
        for (rank, seq, hash) in [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 1, 4)] {
            let line = json!({ "payload_hex": batch(rank, hash), "seq": seq, "worker": "a" });
            building.apply(capture::read(&line.to_string()).unwrap()).unwrap();
        }
        let ranks: Vec<_> = lines(&building.dump()).iter().map(|line| line["rank"].as_u64()).collect();
        assert_eq!(ranks, [Some(0), Some(0), Some(1), Some(1)]);
        for rank in ["a, rank 0", "a, rank 1"] {
            let summary = building.summary();
            assert!(
                summary.contains(&format!("{rank}: unverified (parity_unknown), 2 batches, 2 stored")),
                "{summary}"
            );
        }
        assert!(building.apply(capture::read("[1]").unwrap()).is_err());
    }

    #[test]
    fn answers_of_a_polled_engine_are_applied() {
        let store = |hash: u64| {
            let tokens: Vec<Value> = (0..32).map(|at| json!({ "token_id": hash * 100 + at })).collect();
            json!({ "type": "stored", "parent_hash": null, "blocks": [{ "block_hash": hash, "tokens": tokens, "cache_level": 0 }] })
        };
        let answers = [
            json!([{ "event_id": 0, "data": store(1) }, { "event_id": 1, "data": store(2) }]),
            json!([{ "event_id": 2, "data": { "type": "removed", "block_hashes": [1] } }]),
        ];
        let mut building = Building::new(Ingest::new(IngestConfig::default()));
        for answer in answers {
            building.apply(capture::read(&answer.to_string()).unwrap()).unwrap();
        }
        let held = lines(&building.dump());
        assert_eq!((held.len(), held[0].get("rank")), (1, None));
    }
}
