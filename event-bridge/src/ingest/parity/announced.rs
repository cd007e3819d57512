//! What an engine announced lately, for whoever must see what it has instead of a prompt.

use std::collections::VecDeque;

use kv_routing::block::{HashSeed, SequenceHash, TokenId};

use crate::engine::Stored;
use crate::ingest::residency::hash_seed;

/// Beginnings of chains kept, and tokens of each.
const ROOTS: usize = 32;
const ROOT_TOKENS: usize = 256;
/// Continuations kept, and tokens of each.
const CONTINUATIONS: usize = 128;
const CONTINUATION_TOKENS: usize = 64;

/// A store, in brief.
#[derive(Debug)]
pub(super) struct Piece {
    /// The block before it; `None` at the beginning of a chain.
    pub(super) behind: Option<SequenceHash>,
    /// Its first tokens.
    pub(super) tokens: Box<[TokenId]>,
    /// Tokens of a page.
    pub(super) page: u32,
    /// `None` when the engine names its adapter by number only.
    pub(super) seed: Option<HashSeed>,
    pub(super) adapter: bool,
}

/// Latest stores, oldest first.
#[derive(Debug, Default)]
pub(super) struct Announced {
    roots: VecDeque<Piece>,
    continuations: VecDeque<Piece>,
}

impl Announced {
    /// Notes a store. `behind` is the block before it; `None` where that is not known.
    pub(super) fn note(&mut self, stored: &Stored<'_>, behind: Option<Option<SequenceHash>>) {
        let (Some(ids), Some(behind)) = (stored.tokens.ids(), behind) else { return };
        let (list, most, tokens) = match behind {
            None => (&mut self.roots, ROOTS, ROOT_TOKENS),
            Some(_) => (&mut self.continuations, CONTINUATIONS, CONTINUATION_TOKENS),
        };
        let pages = stored.hashes.len().max(1);
        let page = stored.block_size.unwrap_or_else(|| u32::try_from(ids.len() / pages).unwrap_or(u32::MAX));
        if list.len() == most {
            list.pop_front();
        }
        list.push_back(Piece {
            behind,
            tokens: ids.iter().take(tokens).copied().collect(),
            page,
            seed: hash_seed(stored),
            adapter: stored.lora_name.as_deref().is_some_and(|name| !name.is_empty())
                || stored.lora_id.is_some_and(|id| id != 0),
        });
    }

    /// Stores right behind `block`, the latest first; beginnings of chains for `None`.
    pub(super) fn behind(&self, block: Option<SequenceHash>) -> impl Iterator<Item = &Piece> {
        let list = if block.is_none() { &self.roots } else { &self.continuations };
        list.iter().rev().filter(move |piece| piece.behind == block)
    }

    pub(super) fn clear(&mut self) {
        self.roots.clear();
        self.continuations.clear();
    }
}
