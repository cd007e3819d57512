//! An engine's cache and publisher, by the book.

use std::collections::{BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};

use super::dice::Dice;

/// Tokens per block.
const BLOCK: usize = 8;

/// One process: its cache dies with it.
pub(crate) struct Engine {
    /// Whole prefix of each block ever stored, by the engine's own hash.
    prefixes: HashMap<u64, Vec<u32>>,
    /// Copies of each block.
    copies: HashMap<u64, u32>,
    /// Batches kept for replays.
    pub(crate) buffer: VecDeque<(u64, Bytes)>,
    keeps: usize,
    pub(crate) next_seq: u64,
    /// Some batch is not in the buffer any more.
    pub(crate) trimmed: bool,
    salt: u64,
}

impl Engine {
    pub(crate) fn new(keeps: usize, salt: u64) -> Self {
        Self {
            prefixes: HashMap::new(),
            copies: HashMap::new(),
            buffer: VecDeque::new(),
            keeps,
            next_seq: 0,
            trimmed: false,
            salt,
        }
    }

    /// Does something and publishes it as one batch.
    pub(crate) fn work(&mut self, dice: &mut Dice) -> (u64, Bytes) {
        let mut events = Vec::new();
        for _ in 0..dice.between(1, 3) {
            match dice.below(20) {
                0 => {
                    self.copies.clear();
                    events.push(pack_cleared());
                }
                1..8 => events.extend(self.evict(dice)),
                _ => events.push(self.store(dice)),
            }
        }
        let payload = pack_batch(&events, self.next_seq + self.salt * 1_000_000);
        let batch = (self.next_seq, payload);
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

    fn store(&mut self, dice: &mut Dice) -> Vec<u8> {
        let residents = self.residents();
        let parent = (dice.below(3) > 0 && !residents.is_empty()).then(|| residents[dice.below(residents.len())]);
        let mut prefix = parent.map(|parent| self.prefixes[&parent].clone()).unwrap_or_default();
        let start = prefix.len();
        let mut hashes = Vec::new();
        for _ in 0..dice.between(1, 3) {
            let token = dice.below(6) as u32;
            prefix.extend([token; BLOCK]);
            // Names differ between lives, as those of older engines do.
            let hash = prefix.iter().fold(self.salt, |hash, token| {
                (hash ^ u64::from(*token)).wrapping_mul(0x0100_0000_01b3).rotate_left(7) | 1
            });
            self.prefixes.insert(hash, prefix.clone());
            *self.copies.entry(hash).or_default() += 1;
            hashes.push(hash);
        }
        pack_stored(&hashes, parent, &prefix[start..])
    }

    fn evict(&mut self, dice: &mut Dice) -> Option<Vec<u8>> {
        let residents = self.residents();
        let hash = *residents.get(dice.below(residents.len().max(1)))?;
        *self.copies.get_mut(&hash)? -= 1;
        Some(pack_removed(hash))
    }

    /// Names of all blocks it holds, as the index has them.
    pub(crate) fn holds(&self) -> BTreeSet<u64> {
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let name = |hash: u64| {
            let tokens: Vec<TokenId> = self.prefixes[&hash].iter().copied().map(TokenId).collect();
            chain(&tokens, size, HashSeed::default()).last().unwrap().0
        };
        self.residents().into_iter().map(name).collect()
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

fn pack_stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> Vec<u8> {
    let mut out = vec![0x96];
    pack_text(&mut out, "BlockStored");
    pack_array(&mut out, hashes.len());
    hashes.iter().for_each(|hash| pack_number(&mut out, *hash));
    match parent {
        Some(parent) => pack_number(&mut out, parent),
        None => out.push(0xc0),
    }
    pack_array(&mut out, tokens.len());
    tokens.iter().for_each(|token| pack_number(&mut out, u64::from(*token)));
    pack_number(&mut out, BLOCK as u64);
    out.push(0xc0);
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
