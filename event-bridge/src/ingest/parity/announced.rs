//! What an engine announced lately, for whoever must see what it has instead of a prompt.

use std::collections::VecDeque;

use kv_routing::block::{BlockSize, HEAD_TOKENS, HashSeed, SequenceHash, TokenId};

use crate::engine::Stored;
use crate::ingest::residency::hash_seed;

/// Beginnings of chains kept, and tokens of each.
const ROOTS: usize = 32;
const ROOT_TOKENS: usize = HEAD_TOKENS;
/// Continuations kept, and tokens of each.
const CONTINUATIONS: usize = 128;
const CONTINUATION_TOKENS: usize = 64;

/// A store, in brief.
#[derive(Debug)]
struct Store {
    /// The block before it; `None` at the beginning of a chain.
    behind: Option<SequenceHash>,
    /// Its first tokens.
    tokens: Box<[TokenId]>,
    page: u32,
    seed: Option<HashSeed>,
    adapter: bool,
}

/// What an engine announced in the place of a prompt's block and those behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Its first tokens.
    pub(super) tokens: &'a [TokenId],
    /// Tokens of a page.
    pub(super) page: u32,
    /// `None` when the engine names its adapter by number only.
    pub(super) seed: Option<HashSeed>,
    pub(super) adapter: bool,
}

/// The beginning of a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning<'a> {
    pub(super) tokens: &'a [TokenId],
    /// Its full blocks.
    pub(super) chain: &'a [SequenceHash],
    pub(super) block_size: BlockSize,
    pub(super) seed: HashSeed,
}

/// Latest stores, oldest first.
#[derive(Debug, Default)]
pub(super) struct Announced {
    roots: VecDeque<Store>,
    continuations: VecDeque<Store>,
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
        list.push_back(Store {
            behind,
            tokens: ids.iter().take(tokens).copied().collect(),
            page,
            seed: hash_seed(stored),
            adapter: stored.lora_name.as_deref().is_some_and(|name| !name.is_empty())
                || stored.lora_id.is_some_and(|id| id != 0),
        });
    }

    /// What was announced behind the first `agreed` blocks of a prompt, the latest first: what follows there in stores that begin with
    /// some of them.
    pub(super) fn behind<'a>(&'a self, prompt: Beginning<'a>, agreed: usize) -> impl Iterator<Item = Piece<'a>> {
        let stores = self.continuations.iter().rev().chain(self.roots.iter().rev());
        stores.filter_map(move |store| store.behind(prompt, agreed))
    }

    pub(super) fn clear(&mut self) {
        self.roots.clear();
        self.continuations.clear();
    }
}

impl Store {
    fn behind(&self, prompt: Beginning<'_>, agreed: usize) -> Option<Piece<'_>> {
        let before = match self.behind {
            None => 0,
            Some(behind) => prompt.chain.get(..agreed)?.iter().position(|block| *block == behind)? + 1,
        };
        let block = prompt.block_size.tokens() as usize;
        let same = prompt.tokens.get(before * block..agreed * block)?;
        let tokens = self.tokens.strip_prefix(same)?;
        // Other seeds make other blocks of the same tokens.
        let follows = before == agreed || (self.seed == Some(prompt.seed) && !tokens.is_empty());
        follows.then_some(Piece { tokens, page: self.page, seed: self.seed, adapter: self.adapter })
    }
}
