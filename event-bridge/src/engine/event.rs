//! Typed events, the same for every engine and layout.

use std::borrow::Cow;
use std::fmt;

use kv_routing::block::TokenId;

/// An engine's own name of a block. It links events (parents, removals) and means nothing else; it is never recomputed.
///
/// Signed numbers are taken by their bits. Binary hashes and hexadecimal strings are represented by their last eight
/// bytes read big-endian, which is what the same engine sends when it is told to send integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineHash(pub u64);

impl fmt::Display for EngineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One change of an engine's cache. Strings borrow from the payload where they can.
#[expect(clippy::large_enum_variant, reason = "handed out one at a time, never kept in a list")]
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Blocks entered a tier.
    Stored(Stored<'a>),
    /// Blocks left a tier.
    Removed(Removed<'a>),
    /// A block moved from one tier to another.
    Moved(Moved),
    /// The whole cache was emptied.
    Cleared,
}

/// A contiguous piece of one chain of blocks that entered a tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored<'a> {
    /// The blocks, in chain order. May be empty.
    pub hashes: Vec<EngineHash>,
    /// The block before the first; `None`: the piece begins the chain.
    pub parent: Option<EngineHash>,
    /// Tokens of the blocks.
    pub tokens: Tokens,
    /// Tokens per block; 0 in placeholders, `None` when the layout does not carry it.
    pub block_size: Option<u32>,
    /// The only block may have fewer tokens than the engine's blocks have (TensorRT-LLM), so its size proves nothing.
    pub may_be_partial: bool,
    /// Deprecated number of the adapter.
    pub lora_id: Option<i64>,
    /// LoRA adapter.
    pub lora_name: Option<Cow<'a, str>>,
    /// Where the blocks lie, as the engine spells it.
    pub medium: Option<Cow<'a, str>>,
    /// Cache salt, where the layout has a field of its own for it.
    pub cache_salt: Option<Cow<'a, str>>,
    /// What else than tokens enters each block's hash; empty when nothing does for any block.
    pub extra_keys: Vec<Vec<ExtraKey<'a>>>,
    /// KV cache group.
    pub group: Option<u32>,
    /// Kind of attention of the group, in the engine's word; see [`SpecKind::of`].
    pub kind: Option<Cow<'a, str>>,
    /// Window of the group, in tokens.
    pub sliding_window: Option<u32>,
    /// Whether the tier belongs to this worker, in the engine's word; see [`is_remote`].
    pub locality: Option<Cow<'a, str>>,
    /// Secondary tier that owns the blocks.
    pub ownership: Option<Cow<'a, str>>,
    /// Session of the request; tenant data, never logged.
    pub session_id: Option<Cow<'a, str>>,
    /// Tokens beyond each block that its engine hash covers too.
    pub lookahead: Vec<Vec<u32>>,
    /// Blocks that are held already may be announced by it although there is no second copy and no second removal will come:
    /// vLLM tells of cache hits when a request asks for it (`kv_cache_report_mode: full`), from the chain's beginning on. Only
    /// releases with the map layout do.
    pub may_repeat: bool,
}

/// Blocks that left a tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed<'a> {
    /// The blocks.
    pub hashes: Vec<EngineHash>,
    /// Where they lay, as the engine spells it.
    pub medium: Option<Cow<'a, str>>,
    /// The layout does not say where they lay: they are gone from every tier.
    pub every_tier: bool,
    /// KV cache group.
    pub group: Option<u32>,
    /// Whether the tier belongs to this worker, in the engine's word; see [`is_remote`].
    pub locality: Option<Cow<'a, str>>,
    /// Secondary tier that owned the blocks.
    pub ownership: Option<Cow<'a, str>>,
}

/// A block that moved (TensorRT-LLM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The block.
    pub hash: EngineHash,
    /// Level it left: 0 device, 1 host, 2 disk.
    pub from_level: u32,
    /// Level it is on now.
    pub to_level: u32,
}

/// Token ids of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// One id per position.
    Plain(Vec<TokenId>),
    /// SGLang with a drafter hashes pairs of neighbours: `first` has one id per position, `next` is the one after them.
    Pairs {
        /// First member of each pair.
        first: Vec<TokenId>,
        /// Second member of the last pair.
        next: TokenId,
    },
    /// Something else than ids is among them (a digest in place of an image's tokens), so no prompt can be matched.
    Unindexable {
        /// Number of positions.
        positions: u32,
    },
}

impl Default for Tokens {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

impl Tokens {
    /// One id per position; `None` when there are none to be had.
    pub fn ids(&self) -> Option<&[TokenId]> {
        match self {
            Self::Plain(ids) | Self::Pairs { first: ids, .. } => Some(ids),
            Self::Unindexable { .. } => None,
        }
    }

    /// Number of positions.
    pub fn positions(&self) -> usize {
        match self {
            Self::Plain(ids) | Self::Pairs { first: ids, .. } => ids.len(),
            Self::Unindexable { positions } => *positions as usize,
        }
    }
}

/// Something else than tokens that enters a block's engine hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraKey<'a> {
    /// Adapter name, cache salt, or the bare image identifier of old releases: only the context tells.
    Text(Cow<'a, str>),
    /// An image or other item and where it begins, relative to the block (may be negative).
    Item {
        /// Its identifier.
        id: Cow<'a, str>,
        /// Token offset from the beginning of the block.
        offset: i64,
    },
    /// Digest of embeddings used in place of tokens.
    Digest(&'a [u8]),
    /// Something no release inspected sends.
    Other,
}

/// Kind of attention of a KV cache group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecKind {
    /// Full attention of any flavour: a block of it is part of a prefix.
    Full,
    /// Windows, state space models, encoders: holding a block says nothing about the prefix before it.
    Other,
}

impl SpecKind {
    /// By the engine's word; words this release does not know are [`SpecKind::Other`].
    pub fn of(word: &str) -> Self {
        match word {
            "full_attention" | "mla_attention" | "sink_full_attention" => Self::Full,
            _ => Self::Other,
        }
    }
}

/// Whether `locality` says that a tier is not the worker's own. Words this release does not know do.
pub fn is_remote(locality: Option<&str>) -> bool {
    locality.is_some_and(|word| !word.eq_ignore_ascii_case("local"))
}
