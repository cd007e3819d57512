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
        for (hash, tokens) in hashes.into_iter().zip(tokens.chunks(event["block_size"].as_u64().unwrap() as usize)) {
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
        assert!(summary.contains(&format!("{rank}: unverified (parity_unknown), 2 batches, 2 stored")), "{summary}");
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
