//! The JSON as it is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::engine::EngineHash;

#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) event_id: u64,
    #[serde(default)]
    pub(super) attention_dp_rank: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    pub(super) event_id: u64,
    #[serde(default)]
    pub(super) window_size: Option<u64>,
    #[serde(default)]
    pub(super) attention_dp_rank: Option<u32>,
    #[serde(borrow)]
    pub(super) data: Data<'a>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Data<'a> {
    Created {},
    Stored {
        #[serde(default)]
        parent_hash: Option<Hash>,
        #[serde(borrow)]
        blocks: Vec<Block<'a>>,
    },
    Removed {
        block_hashes: Vec<Hash>,
    },
    Updated {
        block_hash: Hash,
        #[serde(default)]
        cache_level: Option<Change>,
    },
    /// A kind this release does not know.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
pub(super) struct Block<'a> {
    pub(super) block_hash: Hash,
    pub(super) tokens: Vec<Token>,
    #[serde(default)]
    pub(super) cache_level: u32,
    #[serde(borrow, default)]
    pub(super) mm_keys: Option<Vec<MmKey<'a>>>,
    #[serde(borrow, default)]
    pub(super) cache_salt: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) token_id: u32,
    #[serde(default)]
    pub(super) token_extra_id: u64,
}

#[derive(Deserialize)]
pub(super) struct MmKey<'a> {
    #[serde(borrow)]
    pub(super) hash: Cow<'a, str>,
    #[serde(default)]
    pub(super) start_offset: i64,
}

#[derive(Deserialize)]
pub(super) struct Change {
    pub(super) old_value: u32,
    pub(super) new_value: u32,
}

/// A number, or the hexadecimal digits of a longer one, of which the last 64 bits are kept.
#[derive(Clone, Copy)]
pub(super) struct Hash(pub(super) EngineHash);

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HashVisitor;

        impl Visitor<'_> for HashVisitor {
            type Value = Hash;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block hash: an integer or hexadecimal digits")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Hash, E> {
                Ok(Hash(EngineHash(number)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Hash, E> {
                Ok(Hash(EngineHash(number.cast_unsigned())))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Hash, E> {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                let last = digits.len().saturating_sub(16);
                let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = digits.get(last..).filter(|_| is_hex).and_then(|last| u64::from_str_radix(last, 16).ok());
                let wrong = || E::invalid_value(Unexpected::Str(text), &self);
                number.map(|number| Hash(EngineHash(number))).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(HashVisitor)
    }
}
