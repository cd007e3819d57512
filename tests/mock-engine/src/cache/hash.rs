//! Block hashes as vLLM computes them: SHA-256 over Python's pickle (protocol 5) of
//! `(parent digest, tuple of tokens, extra keys or None)`; the events carry the last eight bytes as an integer.
//!
//! Only the handful of pickle opcodes that such a tuple needs are written here. The result equals CPython's bit for
//! bit, which the recorded frames of a real engine prove.

use sha2::{Digest, Sha256};

/// The seed a vLLM from 0.29 on derives its chain root from, unless `PYTHONHASHSEED` is set.
pub const DEFAULT_HASH_SEED: &str = "vllm-none-hash";

/// The digest of one block and of everything before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockHash(pub [u8; 32]);

impl BlockHash {
    /// The form that events carry: the last eight bytes, read big-endian.
    pub fn event_id(&self) -> u64 {
        let mut tail = [0u8; 8];
        tail.copy_from_slice(&self.0[24..]);
        u64::from_be_bytes(tail)
    }
}

/// What besides tokens makes a block distinct. Hashed with its tag from vLLM 0.31 on; events carry the bare strings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExtraKey {
    /// An adapter: its name and the path of its weights. On every block.
    Lora {
        /// Served name.
        name: String,
        /// Path of the weights; hashed, never announced.
        path: String,
    },
    /// The request's cache salt. On the first block only.
    CacheSalt(String),
}

impl ExtraKey {
    /// What the event shows for this key.
    pub fn event_text(&self) -> &str {
        match self {
            ExtraKey::Lora { name, .. } => name,
            ExtraKey::CacheSalt(salt) => salt,
        }
    }
}

/// Hashes blocks in a chain whose root depends on a seed.
#[derive(Clone, Debug)]
pub struct BlockHasher {
    root: BlockHash,
}

impl BlockHasher {
    /// A hasher with the root of `seed` (see [`DEFAULT_HASH_SEED`]; a set `PYTHONHASHSEED` is its decimal text).
    pub fn new(seed: &str) -> Self {
        let mut pickle = Pickle::default();
        pickle.text(seed);
        Self { root: pickle.digest() }
    }

    /// The hash of `tokens`, which follow `parent` (`None` for the first block).
    pub fn block(&self, parent: Option<&BlockHash>, tokens: &[u32], extra: &[ExtraKey]) -> BlockHash {
        let mut pickle = Pickle::default();
        pickle.bytes(&parent.unwrap_or(&self.root).0);
        pickle.tuple(tokens.len(), |p| tokens.iter().for_each(|t| p.int(*t)));
        if extra.is_empty() {
            pickle.none();
        } else {
            pickle.tuple(extra.len(), |p| extra.iter().for_each(|key| p.extra_key(key)));
        }
        pickle.close_tuple(3);
        pickle.digest()
    }
}

/// The body of a pickle: everything after the frame header.
#[derive(Default)]
struct Pickle {
    body: Vec<u8>,
}

impl Pickle {
    fn memoize(&mut self) {
        self.body.push(0x94);
    }

    fn none(&mut self) {
        self.body.push(b'N');
    }

    fn bytes(&mut self, value: &[u8; 32]) {
        self.body.extend_from_slice(&[b'C', 32]);
        self.body.extend_from_slice(value);
        self.memoize();
    }

    fn text(&mut self, value: &str) {
        match u8::try_from(value.len()) {
            Ok(short) => self.body.extend_from_slice(&[0x8c, short]),
            Err(_) => {
                self.body.push(b'X');
                self.body.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        self.body.extend_from_slice(value.as_bytes());
        self.memoize();
    }

    fn int(&mut self, value: u32) {
        if let Ok(byte) = u8::try_from(value) {
            self.body.extend_from_slice(&[b'K', byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.body.push(b'M');
            self.body.extend_from_slice(&short.to_le_bytes());
        } else if i32::try_from(value).is_ok() {
            self.body.push(b'J');
            self.body.extend_from_slice(&value.to_le_bytes());
        } else {
            // LONG1: a fifth byte keeps the number positive.
            self.body.extend_from_slice(&[0x8a, 5]);
            self.body.extend_from_slice(&value.to_le_bytes());
            self.body.push(0);
        }
    }

    fn extra_key(&mut self, key: &ExtraKey) {
        match key {
            ExtraKey::Lora { name, path } => self.tuple(3, |p| {
                p.text("lora");
                p.text(name);
                p.text(path);
            }),
            ExtraKey::CacheSalt(salt) => self.tuple(2, |p| {
                p.text("cache_salt");
                p.text(salt);
            }),
        }
    }

    fn tuple(&mut self, len: usize, items: impl FnOnce(&mut Self)) {
        if len > 3 {
            self.body.push(b'(');
        }
        items(self);
        self.close_tuple(len);
    }

    fn close_tuple(&mut self, len: usize) {
        match len {
            0 => {
                self.body.push(b')');
                return;
            }
            1 => self.body.push(0x85),
            2 => self.body.push(0x86),
            3 => self.body.push(0x87),
            _ => self.body.push(b't'),
        }
        self.memoize();
    }

    fn digest(mut self) -> BlockHash {
        self.body.push(b'.');
        let mut hash = Sha256::new();
        hash.update([0x80, 5, 0x95]);
        hash.update((self.body.len() as u64).to_le_bytes());
        hash.update(&self.body);
        BlockHash(hash.finalize().into())
    }
}
