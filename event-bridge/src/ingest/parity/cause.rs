//! What a difference between two lists of tokens looks like.

use std::collections::BTreeSet;

use kv_routing::block::{BlockSize, HashSeed, TokenId};

use super::announced::Piece;

/// Why an engine's blocks are not those of the prompts it answers; a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The prompts are put together differently out of the same messages.
    Template,
    /// The ids are those of another tokenizer.
    Tokenizer,
    /// Pages neither divide the pool's blocks nor consist of them.
    BlockSize,
    /// Same tokens, computed under another adapter.
    Adapter,
    /// Same tokens, cached under a salt that the request did not carry, or without the one it carried.
    Salt,
    /// The blocks are announced by another target: what stands between sends requests elsewhere.
    Elsewhere,
    /// Nothing the engine announced resembles the prompts.
    Unknown,
}

impl Cause {
    /// Word used in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Tokenizer => "tokenizer",
            Self::BlockSize => "block_size",
            Self::Adapter => "adapter",
            Self::Salt => "salt",
            Self::Elsewhere => "elsewhere",
            Self::Unknown => "unknown",
        }
    }

    /// What to look at.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Template => {
                "the engine puts prompts together differently: compare its chat template, its default template \
                 arguments and the pool's model_dir and chat settings"
            }
            Self::Tokenizer => {
                "the engine's token ids are another tokenizer's: compare its model with the pool's model_dir"
            }
            Self::BlockSize => {
                "the engine's pages do not fit the block size of the pool, which its first events decided: give \
                 engines with another block size a pool of their own"
            }
            Self::Adapter => "the engine computes these prompts under another adapter: compare the pool's adapters",
            Self::Salt => {
                "the engine caches these prompts under another salt than the requests carry: look for something \
                 between Envoy and engine that sets or drops cache_salt"
            }
            Self::Elsewhere => {
                "other targets announce the blocks of prompts that this one answered: look for a balancer behind this \
                 address, data-parallel ranks that are not configured, or swapped event endpoints"
            }
            Self::Unknown => {
                "the engine announces nothing that resembles the prompts it answers: check that the events are this \
                 engine's, and that prefix caching is on"
            }
        }
    }
}

/// What the pool's own tokenizer says of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Ids that stand for themselves in prompts, as templates use them.
    pub added: BTreeSet<TokenId>,
}

/// How much two lists have in common: leading tokens, then the longest run of equal tokens anywhere.
pub(super) type Likeness = (usize, usize);

/// Tokens in a row that two prompts of different tokenizers do not have in common.
const RUN: usize = 6;
/// Tokens that are compared for runs.
const COMPARED: usize = 256;

pub(super) fn likeness(ours: &[TokenId], theirs: &[TokenId]) -> Likeness {
    let leading = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    (leading, longest_run(ours, theirs.get(..COMPARED).unwrap_or(theirs)))
}

fn longest_run(one: &[TokenId], other: &[TokenId]) -> usize {
    let (mut longest, mut before) = (0, vec![0_usize; other.len() + 1]);
    for token in one {
        let mut row = vec![0_usize];
        for (matching, candidate) in before.iter().zip(other) {
            let run = if token == candidate { matching + 1 } else { 0 };
            longest = longest.max(run);
            row.push(run);
        }
        before = row;
    }
    longest
}

/// What is compared with a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) tokens: &'a [TokenId],
    pub(super) seed: HashSeed,
    pub(super) adapter: bool,
    pub(super) block_size: BlockSize,
}

/// Why `piece` stands where `wanted` should; `likeness` is theirs.
pub(super) fn guess(
    wanted: &Wanted<'_>,
    piece: &Piece<'_>,
    likeness: Likeness,
    vocabulary: Option<&Vocabulary>,
) -> Cause {
    let compared = wanted.tokens.len().min(piece.tokens.len());
    let (leading, run) = likeness;
    if compared == 0 {
        return Cause::Unknown;
    }
    if leading < compared {
        let same_ids = run >= RUN && !foreign(wanted.tokens, piece.tokens, vocabulary);
        return if same_ids { Cause::Template } else { Cause::Tokenizer };
    }
    let block = wanted.block_size.tokens();
    if piece.seed != Some(wanted.seed) {
        let by_adapter = piece.adapter != wanted.adapter || piece.seed.is_none();
        return if by_adapter { Cause::Adapter } else { Cause::Salt };
    }
    let fits = piece.page > 0 && (piece.page.is_multiple_of(block) || block.is_multiple_of(piece.page));
    if fits { Cause::Unknown } else { Cause::BlockSize }
}

/// Vocabularies of one family number most words alike, but not the tokens that templates are made of: none of those in
/// `theirs`, while `ours` has some.
fn foreign(ours: &[TokenId], theirs: &[TokenId], vocabulary: Option<&Vocabulary>) -> bool {
    let Some(Vocabulary { added }) = vocabulary else { return false };
    let any = |tokens: &[TokenId]| tokens.iter().any(|token| added.contains(token));
    any(ours) && !any(theirs)
}
