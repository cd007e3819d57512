//! The first block that differs, from both sides.

use std::collections::VecDeque;

use kv_routing::block::{TokenId, chain, mark_depths};

use super::announced::{Announced, Beginning, Piece};
use super::cause::{Cause, Wanted, guess, likeness};
use super::{Evidence, Prompt};

/// What is known of a failure of parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its likely cause.
    pub cause: Cause,
    /// Leading blocks of the prompt that the engine has.
    pub agreed_blocks: u32,
    /// The first block that it does not have lies before this one; right behind those that agree where that is known.
    pub differs_before: u32,
    /// Tokens of the prompt from the first differing block on, as the filter has them; empty where they are not known.
    pub filter_tokens: Vec<u32>,
    /// What the engine announced in its place, by resemblance; empty when nothing was.
    pub engine_tokens: Vec<u32>,
    /// Tokens of an engine's page there.
    pub engine_page: Option<u32>,
}

/// Tokens shown of either side.
const SHOWN: usize = 64;

/// Explains why the `missing` prompts are.
pub(super) fn explain(missing: &VecDeque<Prompt>, announced: &Announced, evidence: &Evidence<'_>) -> Finding {
    let elsewhere = missing.iter().filter(|prompt| evidence.index.knows(prompt.last)).count();
    let findings = missing.iter().rev().map(|prompt| explain_one(prompt, announced, evidence));
    let found = findings.reduce(|best, next| if best.cause == Cause::Unknown { next } else { best });
    let mut finding = found.unwrap_or_else(|| Finding::unknown(0, 0));
    // An engine that announces the same tokens by another name did get these prompts.
    let here = matches!(finding.cause, Cause::BlockSize | Cause::Salt | Cause::Adapter);
    if elsewhere * 2 > missing.len() && !here {
        finding.cause = Cause::Elsewhere;
    }
    finding
}

fn explain_one(prompt: &Prompt, announced: &Announced, evidence: &Evidence<'_>) -> Finding {
    let Some(block_size) = evidence.block_size else { return Finding::unknown(0, prompt.blocks) };
    let (agreed, bound) = bracket(prompt, evidence);
    let mut head = chain(&prompt.head, block_size, prompt.seed);
    head.truncate(prompt.blocks as usize);
    let within_head = head.iter().position(|block| !evidence.has(*block));
    let Some(at) = within_head.or((agreed == 0).then_some(0)) else { return Finding::unknown(agreed, bound) };
    let block = block_size.tokens() as usize;
    let tokens = prompt.head.get(at * block..).unwrap_or_default();
    let beginning = Beginning { tokens: &prompt.head, chain: &head, block_size, seed: prompt.seed };
    let wanted = Wanted { tokens, seed: prompt.seed, adapter: prompt.adapter, block_size };
    let alike = announced.behind(beginning, at).map(|piece| (likeness(tokens, piece.tokens), piece));
    // Of equally similar ones the latest.
    let best = alike.reduce(|best, next| if next.0 > best.0 { next } else { best });
    let cause = best.map_or(Cause::Unknown, |(likeness, piece)| guess(&wanted, &piece, likeness, evidence.vocabulary));
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    Finding {
        cause: behind_agreement(at, cause),
        agreed_blocks: at,
        differs_before: at + 1,
        filter_tokens: shown(tokens),
        engine_tokens: best.map(|(_, piece)| shown(piece.tokens)).unwrap_or_default(),
        engine_page: best.map(|(_, Piece { page, .. })| page),
    }
}

/// Leading blocks that agree for certain, and the block before which the first one lies that does not.
fn bracket(prompt: &Prompt, evidence: &Evidence<'_>) -> (u32, u32) {
    let mut agreed = 0;
    for (depth, mark) in mark_depths(prompt.blocks).zip(&prompt.marks) {
        if !evidence.has(*mark) {
            return (agreed, depth);
        }
        agreed = depth;
    }
    (agreed, prompt.blocks)
}

/// Where some blocks agree it is the same tokenizer, whatever it announced behind them: the prompts go on differently.
fn behind_agreement(agreed_blocks: u32, cause: Cause) -> Cause {
    match cause {
        Cause::Tokenizer | Cause::Unknown if agreed_blocks > 0 => Cause::Template,
        other => other,
    }
}

fn shown(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().take(SHOWN).map(|token| token.0).collect()
}

impl Finding {
    fn unknown(agreed_blocks: u32, differs_before: u32) -> Self {
        Self {
            cause: behind_agreement(agreed_blocks, Cause::Unknown),
            agreed_blocks,
            differs_before,
            filter_tokens: Vec::new(),
            engine_tokens: Vec::new(),
            engine_page: None,
        }
    }
}
