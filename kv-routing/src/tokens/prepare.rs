//! One prompt on its way to tokens and hashes, in as many slices as the caller likes.

use super::bpe::LongMerge;
use super::normalize::{Position, normalize};
use super::pieces::{PartEnd, Workshop, tokenize_part};
use super::prompter::{HashPlan, PreparedPrompt};
use super::table::{AddedMatch, Tables};
use super::tokenizer::Tokenizer;
use crate::block::{ChainHasher, TokenId};

/// Queue entries of a long piece that cost about as much as one byte of ordinary text.
const STEPS_PER_BYTE: i64 = 1;
/// A cached byte costs this small a part of a fresh one.
const CACHED_BYTES_PER_BYTE: i64 = 64;

/// A prompt being prepared.
#[derive(Debug)]
pub struct Preparation {
    text: String,
    /// Everything before is tokenized and hashed.
    at: usize,
    stretch: Stretch,
    open: Option<Open>,
    framed: bool,
    plan: HashPlan,
    hasher: ChainHasher,
    kept: Option<Vec<TokenId>>,
    fresh_bytes: u32,
    cached_bytes: u32,
}

/// Text between two added tokens, and the one behind it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: usize,
    end: usize,
    token: Option<AddedMatch>,
}

/// A chunk that no cache knew.
#[derive(Debug)]
struct Open {
    start: usize,
    end: usize,
    /// The normalized text, when normalization changed it; else the chunk is a part of the prompt's text.
    normalized: Option<String>,
    /// Position in the text that is tokenized, and where that ends.
    at: usize,
    stop: usize,
    /// End of the part before the next added token of the normalized text, and that token.
    part_end: usize,
    token: Option<AddedMatch>,
    long: Option<LongMerge>,
    tokens: Vec<TokenId>,
}

impl Preparation {
    /// Begins with `text`. `framed`: with the tokens the post-processor puts around it; `keep`: remember the tokens themselves.
    pub(crate) fn new(tokenizer: &Tokenizer, text: String, framed: bool, plan: HashPlan, keep: bool) -> Self {
        let stretch = Stretch::find(tokenizer, &tokenizer.tables(), &text, 0);
        let mut preparation = Self {
            text,
            at: 0,
            stretch,
            open: None,
            framed,
            plan,
            hasher: ChainHasher::new(plan.block_size, plan.seed),
            kept: keep.then(Vec::new),
            fresh_bytes: 0,
            cached_bytes: 0,
        };
        if framed {
            preparation.emit(&tokenizer.meta().prefix);
        }
        preparation
    }

    /// Works off about `budget` bytes; true when the prompt is done.
    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, workshop: &mut Workshop, budget: u32) -> bool {
        let tables = tokenizer.tables();
        let mut budget = i64::from(budget.max(1));
        while budget > 0 {
            if let Some(mut open) = self.open.take() {
                if open.advance(tokenizer, &tables, workshop, &self.text, &mut budget) {
                    self.emit(&open.tokens);
                    self.at = open.end;
                    self.fresh_bytes += (open.end - open.start) as u32;
                } else {
                    self.open = Some(open);
                }
            } else if self.at < self.stretch.end {
                self.next_chunk(tokenizer, &tables);
                budget -= CACHED_BYTES_PER_BYTE;
            } else if let Some(token) = self.stretch.token {
                self.emit(&[token.id]);
                self.at = token.end;
                self.stretch = Stretch::find(tokenizer, &tables, &self.text, token.end);
                budget -= 1;
            } else {
                if self.framed {
                    self.emit(&tokenizer.meta().suffix);
                    self.framed = false;
                }
                return true;
            }
        }
        false
    }

    /// What a preparation that is done has come to; it is empty afterwards.
    pub(crate) fn take_result(&mut self) -> PreparedPrompt {
        let tokens = self.hasher.tokens();
        let chain =
            std::mem::replace(&mut self.hasher, ChainHasher::new(self.plan.block_size, self.plan.seed)).into_chain();
        PreparedPrompt { tokens, chain, fresh_bytes: self.fresh_bytes, cached_bytes: self.cached_bytes }
    }

    /// The tokens, when they were kept.
    pub(crate) fn take_tokens(&mut self) -> Vec<TokenId> {
        self.kept.take().unwrap_or_default()
    }

    fn next_chunk(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>) {
        let start = self.at;
        let end = tokenizer.cuts().next(&tables.classes, self.text.as_bytes(), start, self.stretch.end);
        let position = Position { begins_stretch: start == self.stretch.start, begins_text: start == 0 };
        let chunk = self.text.get(start..end).unwrap_or("");
        let normalized = normalize(tokenizer, chunk, position);
        self.open = Some(Open::new(tokenizer, tables, &self.text, (start, end), normalized));
    }

    fn emit(&mut self, tokens: &[TokenId]) {
        self.hasher.push_all(tokens);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(tokens);
        }
    }
}

impl Stretch {
    fn find(tokenizer: &Tokenizer, tables: &Tables<'_>, text: &str, start: usize) -> Self {
        match tokenizer.next_raw(tables, text.as_bytes(), start) {
            Some(token) => Self { start, end: token.start, token: Some(token) },
            None => Self { start, end: text.len(), token: None },
        }
    }
}

impl Open {
    fn new(
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        text: &str,
        (start, end): (usize, usize),
        normalized: Option<String>,
    ) -> Self {
        let (at, stop) = normalized.as_ref().map_or((start, end), |normalized| (0, normalized.len()));
        let mut open = Self {
            start,
            end,
            normalized,
            at,
            stop,
            part_end: at,
            token: None,
            long: None,
            tokens: Vec::with_capacity((end - start) / 3 + 1),
        };
        open.find_part(tokenizer, tables, text);
        open
    }

    /// Works on; true when the chunk is done.
    fn advance(
        &mut self,
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        workshop: &mut Workshop,
        text: &str,
        budget: &mut i64,
    ) -> bool {
        while *budget > 0 {
            if let Some(long) = &mut self.long {
                let steps = u32::try_from(*budget * STEPS_PER_BYTE).unwrap_or(u32::MAX).min(1 << 16);
                let done = long.advance(tables, steps);
                *budget -= i64::from(steps) / STEPS_PER_BYTE;
                if !done {
                    continue;
                }
                self.tokens.extend(long.tokens());
                self.long = None;
            } else if self.at < self.part_end {
                let bytes = self.normalized.as_deref().unwrap_or(text).as_bytes();
                let part_end = self.part_end;
                let end =
                    tokenize_part(tokenizer, tables, workshop, bytes, &mut self.at, part_end, &mut self.tokens, budget);
                if let PartEnd::Long(long) = end {
                    self.long = Some(long);
                }
            } else if let Some(token) = self.token.take() {
                self.tokens.push(token.id);
                self.at = token.end;
                self.find_part(tokenizer, tables, text);
            } else {
                return true;
            }
        }
        false
    }

    fn find_part(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, text: &str) {
        let bytes = self.normalized.as_deref().unwrap_or(text).as_bytes();
        let bounded = bytes.get(..self.stop).unwrap_or(bytes);
        self.token = tokenizer.next_normalized(tables, bounded, self.at);
        self.part_end = self.token.map_or(self.stop, |token| token.start);
    }
}
