//! Pieces to tokens: what is done with every chunk that no cache knows.

use super::bpe::{LongMerge, SHORT_SYMBOLS, ShortMerge, first_symbols};
pub(crate) use super::budget::Budget;
use super::cache::WordCache;
use super::image::Family;
use super::scan::Scanner;
use super::table::{PieceKey, Tables};
use super::tokenizer::Tokenizer;
use crate::block::TokenId;

/// Buffers and the word cache of one VM.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) words: WordCache,
    short: ShortMerge,
}

impl Workshop {
    /// `word_bits`: the word cache has 2^`word_bits` places.
    pub(crate) fn new(word_bits: u32) -> Self {
        Self { words: WordCache::new(word_bits), short: ShortMerge::default() }
    }
}

/// How tokenizing a part ended.
pub(crate) enum PartEnd {
    /// At the part's end.
    Done,
    /// Where the budget ran out.
    OverBudget,
    /// At a piece so long that it is merged in steps; the part goes on behind it.
    Long(LongMerge),
}

/// Tokenizes `text[*at..end]`, a part without added tokens, until the budget is spent.
pub(crate) fn tokenize_part(
    tokenizer: &Tokenizer,
    tables: &Tables<'_>,
    workshop: &mut Workshop,
    text: &[u8],
    (at, end): (&mut usize, usize),
    out: &mut Vec<TokenId>,
    budget: &mut Budget,
) -> PartEnd {
    let part = text.get(..end).unwrap_or(text);
    let scanner = Scanner::new(tokenizer.meta().pattern, tables.classes);
    let byte_level = tokenizer.meta().family == Family::ByteLevel;
    while *at < end {
        if budget.spent() {
            return PartEnd::OverBudget;
        }
        let start = *at;
        let piece_end = if byte_level { scanner.next(part, start) } else { tables.joins.piece(part, start) };
        *at = piece_end;
        budget.fresh(piece_end - start);
        let key = PieceKey::of(text, start, piece_end);
        if let Some(key) = key
            && let Some(tokens) = workshop.words.get(key)
        {
            out.extend_from_slice(tokens);
            continue;
        }
        if let Some(token) = tables.vocab.whole(text, start, piece_end) {
            out.push(token);
            if let Some(key) = key {
                workshop.words.put(key, &[token]);
            }
            continue;
        }
        let short = &mut workshop.short;
        if byte_level && piece_end - start <= SHORT_SYMBOLS {
            short.set_bytes(tables, text.get(start..piece_end).unwrap_or(&[]));
        } else {
            short.symbols.clear();
            first_symbols(tables, tokenizer.meta(), text, start, piece_end, &mut short.symbols);
            if short.symbols.len() > SHORT_SYMBOLS {
                return PartEnd::Long(LongMerge::new(&short.symbols));
            }
            short.set_symbols(tables);
        }
        workshop.short.run(tables);
        out.extend_from_slice(&workshop.short.symbols);
        if let Some(key) = key {
            workshop.words.put(key, &workshop.short.symbols);
        }
    }
    PartEnd::Done
}
