//! What an engine at work publishes, in the bytes of vLLM 0.33.

use std::collections::VecDeque;

use bytes::Bytes;

/// Tokens per block.
pub(crate) const BLOCK: usize = 16;
/// New blocks of a request.
pub(crate) const BLOCKS: usize = 64;

/// msgpack as vLLM 0.33 writes it.
#[derive(Default)]
struct Pack(Vec<u8>);

impl Pack {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.raw(&[0xa0 | text.len() as u8]).raw(text.as_bytes())
    }

    fn number(&mut self, number: u64) -> &mut Self {
        match number {
            0..0x80 => self.raw(&[number as u8]),
            0x80..0x1_0000 => self.raw(&[0xcd]).raw(&(number as u16).to_be_bytes()),
            0x1_0000..0x1_0000_0000 => self.raw(&[0xce]).raw(&(number as u32).to_be_bytes()),
            _ => self.raw(&[0xcf]).raw(&number.to_be_bytes()),
        }
    }

    fn array(&mut self, length: usize) -> &mut Self {
        self.raw(&[0xdc]).raw(&(length as u16).to_be_bytes())
    }

    fn stored(&mut self, hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> &mut Self {
        self.raw(&[0xde, 0, 11]).text("type").text("BlockStored").text("block_hashes").array(hashes.len());
        hashes.iter().for_each(|hash| {
            self.raw(&[0xcf]).raw(&hash.to_be_bytes());
        });
        self.text("parent_block_hash");
        match parent {
            Some(parent) => self.raw(&[0xcf]).raw(&parent.to_be_bytes()),
            None => self.raw(&[0xc0]),
        };
        self.text("token_ids").array(tokens.len());
        tokens.iter().for_each(|token| {
            self.number(u64::from(*token));
        });
        self.text("block_size").number(BLOCK as u64).text("lora_id").raw(&[0xc0]).text("medium").text("GPU");
        self.text("lora_name").raw(&[0xc0]).text("extra_keys").array(hashes.len());
        self.raw(&vec![0xc0; hashes.len()]).text("group_idx").number(0);
        self.text("kv_cache_spec_kind").text("full_attention")
    }

    fn removed(&mut self, hash: u64) -> &mut Self {
        self.raw(&[0x84]).text("type").text("BlockRemoved").text("block_hashes").raw(&[0x91, 0xcf]);
        self.raw(&hash.to_be_bytes()).text("medium").text("GPU").text("group_idx").number(0)
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// An engine whose requests bring [`BLOCKS`] new blocks each: three of four continue the request before, the fourth begins anew.
/// What exceeds its capacity is removed, oldest first.
pub(crate) struct Engine {
    dice: Dice,
    capacity: usize,
    held: VecDeque<u64>,
    parent: Option<u64>,
    batches: u64,
}

impl Engine {
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        // Xorshift stays at 0 for ever.
        Self { dice: Dice(seed ^ 0x9e37_79b9_7f4a_7c15), capacity, held: VecDeque::new(), parent: None, batches: 0 }
    }

    /// The next batch, and how many blocks it stores and removes.
    pub(crate) fn batch(&mut self) -> (Bytes, u64) {
        let dice = &mut self.dice;
        let parent = self.parent.filter(|_| !self.batches.is_multiple_of(4));
        let hashes: Vec<u64> = (0..BLOCKS).map(|_| dice.roll()).collect();
        let tokens: Vec<u32> = (0..BLOCKS * BLOCK).map(|_| (dice.roll() % 150_000) as u32).collect();
        let excess = (self.held.len() + BLOCKS).saturating_sub(self.capacity);
        let removed: Vec<u64> = self.held.drain(..excess).collect();
        let mut pack = Pack::default();
        pack.raw(&[0x93, 0xcb]).raw(&(self.batches as f64).to_be_bytes()).array(1 + removed.len());
        removed.iter().for_each(|hash| {
            pack.removed(*hash);
        });
        pack.stored(&hashes, parent, &tokens).number(0);
        self.parent = hashes.last().copied();
        self.held.extend(&hashes);
        self.batches += 1;
        (Bytes::from(pack.0), (hashes.len() + removed.len()) as u64)
    }
}
