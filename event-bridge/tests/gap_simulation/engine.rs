//! An engine's cache and publisher, by the book.

use std::collections::{BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::dice::Dice;

/// Tokens per block.
pub(crate) const BLOCK: usize = 8;

/// How an engine tells of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Positional arrays: every store is a copy.
    #[default]
    Array,
    /// Maps, by engines that announce hits now and then.
    Map,
    /// One JSON event after another, out of a buffer. Nothing is stored twice, and nothing is cleared.
    Json,
}

/// Something that changed.
enum Change {
    Cleared,
    Stored { hashes: Vec<u64>, parent: Option<u64>, tokens: Vec<u32> },
    Removed(u64),
}

/// One process: its cache dies with it.
pub(crate) struct Engine {
    /// Whole prefix of each block ever stored, by the engine's own hash.
    prefixes: HashMap<u64, Vec<u32>>,
    /// What the index calls it.
    names: HashMap<u64, u64>,
    /// Copies of each block.
    copies: HashMap<u64, u32>,
    /// Batches kept for replays, or events that were not fetched yet.
    pub(crate) buffer: VecDeque<(u64, Bytes)>,
    keeps: usize,
    pub(crate) next_seq: u64,
    /// Some batch is not in the buffer any more.
    pub(crate) trimmed: bool,
    salt: u64,
    layout: Layout,
}

impl Engine {
    pub(crate) fn new(layout: Layout, keeps: usize, salt: u64) -> Self {
        let mut engine = Self {
            prefixes: HashMap::new(),
            names: HashMap::new(),
            copies: HashMap::new(),
            buffer: VecDeque::new(),
            keeps,
            next_seq: 0,
            trimmed: false,
            salt,
            layout,
        };
        if layout == Layout::Json {
            engine.publish(|id| json!({ "event_id": id, "data": { "type": "created" } }).to_string().into());
        }
        engine
    }

    /// Does something and publishes it as one batch, or as some events.
    pub(crate) fn work(&mut self, dice: &mut Dice) -> (u64, Bytes) {
        let mut changes = Vec::new();
        for _ in 0..dice.between(1, 3) {
            match dice.below(20) {
                0 if self.layout != Layout::Json => {
                    self.copies.clear();
                    changes.push(Change::Cleared);
                }
                1..8 => changes.extend(self.evict(dice)),
                8..12 if self.layout == Layout::Map => changes.extend(self.tell_of_hit(dice)),
                _ => changes.extend(self.store(dice)),
            }
        }
        if self.layout == Layout::Json {
            for change in &changes {
                self.publish(|id| json_event(id, change));
            }
            return (self.next_seq, Bytes::new());
        }
        let events: Vec<Vec<u8>> = changes.iter().map(|change| pack(change, self.layout)).collect();
        let salt = self.salt;
        self.publish(|seq| pack_batch(&events, seq + salt * 1_000_000))
    }

    fn publish(&mut self, make: impl FnOnce(u64) -> Bytes) -> (u64, Bytes) {
        let batch = (self.next_seq, make(self.next_seq));
        self.next_seq += 1;
        self.buffer.push_back(batch.clone());
        if self.buffer.len() > self.keeps {
            self.buffer.pop_front();
            self.trimmed = true;
        }
        batch
    }

    fn residents(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.copies.iter().filter(|(_, copies)| **copies > 0).map(|(hash, _)| *hash).collect();
        all.sort_unstable();
        all
    }

    /// Names differ between lives, as those of older engines do.
    fn hash(&self, prefix: &[u32]) -> u64 {
        let salt = if self.layout == Layout::Json { 7 } else { self.salt };
        let bytes: Vec<u8> = prefix.iter().flat_map(|token| token.to_le_bytes()).collect();
        xxh3_64_with_seed(&bytes, salt)
    }

    fn store(&mut self, dice: &mut Dice) -> Option<Change> {
        let residents = self.residents();
        let mut parent = (dice.below(3) > 0 && !residents.is_empty()).then(|| residents[dice.below(residents.len())]);
        let mut prefix = parent.map(|parent| self.prefixes[&parent].clone()).unwrap_or_default();
        let mut start = prefix.len();
        let mut hashes = Vec::new();
        for _ in 0..dice.between(1, 3) {
            let token = dice.below(6) as u32;
            prefix.extend([token; BLOCK]);
            let hash = self.hash(&prefix);
            self.know(hash, &prefix);
            let copies = self.copies.entry(hash).or_default();
            if self.layout == Layout::Json && *copies > 0 {
                // A hit, of which nothing is told.
                if hashes.is_empty() {
                    (parent, start) = (Some(hash), prefix.len());
                    continue;
                }
                prefix.truncate(prefix.len() - BLOCK);
                break;
            }
            *copies += 1;
            hashes.push(hash);
        }
        (!hashes.is_empty()).then(|| Change::Stored { hashes, parent, tokens: prefix[start..].to_vec() })
    }

    fn know(&mut self, hash: u64, prefix: &[u32]) {
        if self.prefixes.insert(hash, prefix.to_vec()).is_none() {
            let tokens: Vec<TokenId> = prefix.iter().copied().map(TokenId).collect();
            let size = BlockSize::new(BLOCK as u32).unwrap();
            self.names.insert(hash, chain(&tokens, size, HashSeed::default()).last().unwrap().0);
        }
    }

    /// Announces the held beginning of some chain once more.
    fn tell_of_hit(&self, dice: &mut Dice) -> Option<Change> {
        let residents = self.residents();
        let prefix = &self.prefixes[residents.get(dice.below(residents.len().max(1)))?];
        let all = (1..=prefix.len() / BLOCK).map(|blocks| self.hash(&prefix[..blocks * BLOCK]));
        let hashes: Vec<u64> = all.take_while(|hash| residents.contains(hash)).collect();
        let tokens = prefix[..hashes.len() * BLOCK].to_vec();
        (!hashes.is_empty()).then_some(Change::Stored { hashes, parent: None, tokens })
    }

    fn evict(&mut self, dice: &mut Dice) -> Option<Change> {
        let residents = self.residents();
        let hash = *residents.get(dice.below(residents.len().max(1)))?;
        *self.copies.get_mut(&hash)? -= 1;
        Some(Change::Removed(hash))
    }

    /// Names of all blocks it holds, as the index has them.
    pub(crate) fn holds(&self) -> BTreeSet<u64> {
        self.residents().into_iter().map(|hash| self.names[&hash]).collect()
    }
}

fn json_event(id: u64, change: &Change) -> Bytes {
    let data = match change {
        Change::Cleared => panic!("such an engine clears nothing"),
        Change::Removed(hash) => json!({ "type": "removed", "block_hashes": [hash] }),
        Change::Stored { hashes, parent, tokens } => {
            let block = |(hash, tokens): (&u64, &[u32])| {
                let tokens: Vec<Value> = tokens.iter().map(|token| json!({ "token_id": token })).collect();
                json!({ "block_hash": hash, "tokens": tokens })
            };
            let blocks: Vec<Value> = hashes.iter().zip(tokens.chunks(BLOCK)).map(block).collect();
            json!({ "type": "stored", "parent_hash": parent, "blocks": blocks })
        }
    };
    json!({ "event_id": id, "data": data }).to_string().into()
}

fn pack(change: &Change, layout: Layout) -> Vec<u8> {
    match (change, layout) {
        (Change::Cleared, _) => pack_cleared(),
        (Change::Removed(hash), _) => pack_removed(*hash),
        (Change::Stored { hashes, parent, tokens }, Layout::Map) => pack_stored_map(hashes, *parent, tokens),
        (Change::Stored { hashes, parent, tokens }, _) => pack_stored(hashes, *parent, tokens),
    }
}

fn pack_text(out: &mut Vec<u8>, text: &str) {
    out.push(0xa0 | text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn pack_number(out: &mut Vec<u8>, number: u64) {
    out.push(0xcf);
    out.extend_from_slice(&number.to_be_bytes());
}

fn pack_array(out: &mut Vec<u8>, length: usize) {
    out.push(0xdc);
    out.extend_from_slice(&(length as u16).to_be_bytes());
}

fn pack_numbers(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u64>) {
    pack_array(out, numbers.len());
    numbers.for_each(|number| pack_number(out, number));
}

fn pack_stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> Vec<u8> {
    let mut out = vec![0x96];
    pack_text(&mut out, "BlockStored");
    pack_numbers(&mut out, hashes.iter().copied());
    match parent {
        Some(parent) => pack_number(&mut out, parent),
        None => out.push(0xc0),
    }
    pack_numbers(&mut out, tokens.iter().copied().map(u64::from));
    pack_number(&mut out, BLOCK as u64);
    out.push(0xc0);
    out
}

fn pack_stored_map(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> Vec<u8> {
    let mut out = vec![0x84 + u8::from(parent.is_some())];
    pack_text(&mut out, "type");
    pack_text(&mut out, "BlockStored");
    pack_text(&mut out, "block_hashes");
    pack_numbers(&mut out, hashes.iter().copied());
    if let Some(parent) = parent {
        pack_text(&mut out, "parent_block_hash");
        pack_number(&mut out, parent);
    }
    pack_text(&mut out, "token_ids");
    pack_numbers(&mut out, tokens.iter().copied().map(u64::from));
    pack_text(&mut out, "block_size");
    pack_number(&mut out, BLOCK as u64);
    out
}

fn pack_removed(hash: u64) -> Vec<u8> {
    let mut out = vec![0x92];
    pack_text(&mut out, "BlockRemoved");
    pack_array(&mut out, 1);
    pack_number(&mut out, hash);
    out
}

fn pack_cleared() -> Vec<u8> {
    let mut out = vec![0x91];
    pack_text(&mut out, "AllBlocksCleared");
    out
}

/// The time makes every batch of every life different, as it does for real ones.
fn pack_batch(events: &[Vec<u8>], time: u64) -> Bytes {
    let mut out = vec![0x93, 0xcb];
    out.extend_from_slice(&(time as f64).to_be_bytes());
    pack_array(&mut out, events.len());
    events.iter().for_each(|event| out.extend_from_slice(event));
    out.push(0);
    out.into()
}
