//! Events recorded from a real vLLM, applied frame by frame. The books they are compared with are kept here with plain
//! sets, from the recording's own decoding.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test stops at the first surprise")]

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use bytes::Bytes;
use event_bridge::ingest::{Ingest, IngestConfig, Parity, Reason, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::SourceState;
use serde_json::Value;

const SLOT: Slot = Slot(0);
/// Requests before the recorded engine was started anew, with few blocks.
const FIRST_LIFE: usize = 33;

fn recording() -> Vec<Value> {
    let lines = include_str!("../../tests/data/vllm-real-frames.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn follow() -> Ingest {
    let mut ingest = Ingest::new(IngestConfig::default());
    ingest.add_target(SLOT, SourceSpec::default());
    assert!(ingest.handle(SLOT, StreamEvent::Connected, Instant::now()).is_empty());
    ingest
}

fn feed(ingest: &mut Ingest, record: &Value) {
    let now = Instant::now();
    let payload = Bytes::from(unhex(record["payload_hex"].as_str().unwrap()));
    let event = StreamEvent::Live { seq: record["seq"].as_u64().unwrap(), payload, received: now };
    assert!(ingest.handle(SLOT, event, now).is_empty());
}

fn held(ingest: &Ingest) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    ingest.index().for_each_holder(|slot, tier, block, depth| {
        assert_eq!((slot, tier), (SLOT, Tier::Device));
        assert!(depth.is_some());
        all.insert(block.0);
    });
    all
}

fn tokens(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|id| TokenId(id.as_u64().unwrap() as u32)).collect()
}

/// Blocks with their references and names, kept by the book.
#[derive(Default)]
struct Book {
    names: HashMap<u64, u64>,
    salts: HashMap<u64, String>,
    copies: HashMap<u64, u32>,
}

impl Book {
    fn apply(&mut self, record: &Value) {
        for event in record["decoded"][1].as_array().unwrap() {
            match event["type"].as_str().unwrap() {
                "BlockStored" => self.store(event),
                "BlockRemoved" => {
                    for hash in event["block_hashes"].as_array().unwrap() {
                        let copies = self.copies.get_mut(&hash.as_u64().unwrap()).unwrap();
                        *copies = copies.checked_sub(1).unwrap();
                    }
                }
                "AllBlocksCleared" => self.copies.clear(),
                other => panic!("{other}"),
            }
        }
    }

    fn store(&mut self, event: &Value) {
        let size = event["block_size"].as_u64().unwrap() as usize;
        let ids = tokens(&event["token_ids"]);
        let parent = event["parent_block_hash"].as_u64();
        let mut before = parent.map(|parent| self.names[&parent]);
        let salt = match parent {
            Some(parent) => self.salts.get(&parent).cloned(),
            None => event["extra_keys"][0][0].as_str().map(str::to_owned),
        };
        let seed = HashSeed::new(None, salt.as_deref());
        for (hash, block) in event["block_hashes"].as_array().unwrap().iter().zip(ids.chunks(size)) {
            let local = kv_routing::block::local_hash(block, seed);
            let name = kv_routing::block::extend(before.map(SequenceHash), local).0;
            self.names.insert(hash.as_u64().unwrap(), name);
            self.salts.extend(salt.clone().map(|salt| (hash.as_u64().unwrap(), salt)));
            *self.copies.entry(hash.as_u64().unwrap()).or_default() += 1;
            before = Some(name);
        }
    }

    fn held(&self) -> BTreeSet<u64> {
        self.copies.iter().filter(|(_, copies)| **copies > 0).map(|(hash, _)| self.names[hash]).collect()
    }
}

#[test]
fn after_every_frame_the_index_equals_the_book() {
    let records = recording();
    assert_eq!(records.len(), 49);
    let lives = [&records[..FIRST_LIFE], &records[FIRST_LIFE..]];
    for life in lives {
        let (mut ingest, mut book) = (follow(), Book::default());
        let (mut most, mut removals) = (0, 0);
        for record in life {
            feed(&mut ingest, record);
            book.apply(record);
            assert_eq!(held(&ingest), book.held(), "frame {}", record["seq"]);
            most = most.max(book.held().len());
            removals = ingest.report(SLOT).unwrap().removed_blocks;
        }
        // The second life ran with 128 blocks, so that it had to evict.
        assert!(life.len() == FIRST_LIFE || (removals > 100 && most > 100), "{removals} removals, {most} blocks");
        let report = ingest.report(SLOT).unwrap();
        assert_eq!(report.batches, life.len() as u64);
        assert_eq!((report.undecodable, report.unknown_removals, report.orphans, report.gaps), (0, 0, 0, 0));
        assert_eq!((report.state, report.reason), (SourceState::Unverified, Reason::ParityUnknown));
        ingest.set_parity(SLOT, Parity::Shown);
        assert_eq!(ingest.report(SLOT).unwrap().state, SourceState::Exact);
        assert_eq!(ingest.block_size(), BlockSize::new(32));
    }
}

/// The engine itself says how much of each prompt it had: the index said the same before the request.
#[test]
fn prompts_find_what_the_engine_says_it_had_cached() {
    let records = recording();
    let size = BlockSize::new(32).unwrap();
    let (mut ingest, mut told) = (follow(), 0);
    let mut former = &Value::Null;
    for record in &records[..FIRST_LIFE] {
        // A request that published twice has two records; of several samples the later ones find the first one's blocks.
        if record["request"] == *former || !record["request"]["n"].is_null() {
            feed(&mut ingest, record);
            continue;
        }
        former = &record["request"];
        let prompt = tokens(&record["prompt_token_ids"]);
        let blocks = chain(&prompt, size, HashSeed::new(None, record["request"]["cache_salt"].as_str()));
        let found = ingest.index().overlaps(&blocks).get(SLOT).device * 32;
        if let Some(cached) = record["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() {
            // An engine always computes the last token of a prompt anew.
            let most = (prompt.len() as u32 - 1) / 32 * 32;
            assert_eq!(u64::from(found.min(most)), cached, "{} {}", record["scenario"], record["seq"]);
            told += u64::from(cached > 0);
        }
        feed(&mut ingest, record);
    }
    assert!(told >= 5, "{told} requests had anything cached");
}

#[test]
fn a_new_life_on_a_new_connection_replaces_the_old_one() {
    let records = recording();
    let mut ingest = follow();
    records[..FIRST_LIFE].iter().for_each(|record| feed(&mut ingest, record));
    let now = Instant::now();
    ingest.handle(SLOT, StreamEvent::Disconnected { reason: "test".into() }, now);
    assert_eq!(ingest.report(SLOT).unwrap().state, SourceState::Stale);
    assert!(!held(&ingest).is_empty());
    ingest.handle(SLOT, StreamEvent::Connected, now);
    let mut book = Book::default();
    for record in &records[FIRST_LIFE..] {
        feed(&mut ingest, record);
        book.apply(record);
        assert_eq!(held(&ingest), book.held());
    }
    ingest.remove_target(SLOT);
    assert!(held(&ingest).is_empty());
    assert_eq!(ingest.block_size(), None);
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
