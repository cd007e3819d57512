//! A chunk that no cache knew, being tokenized.

use super::bpe::LongMerge;
use super::items::Item;
use super::normalize::normalize;
use super::pieces::{Budget, PartEnd, Workshop, tokenize_part};
use super::table::{AddedMatch, Tables};
use super::tokenizer::Tokenizer;
use crate::block::TokenId;

/// The chunk and how far it is.
#[derive(Debug)]
pub(crate) struct Open {
    /// The normalized text, when normalization changed it; else the chunk is a part of the prompt's text.
    normalized: Option<String>,
    /// Position in the text that is tokenized, and where that ends.
    at: usize,
    stop: usize,
    /// End of the part before the next added token of the normalized text, and that token.
    part_end: usize,
    token: Option<AddedMatch>,
    long: Option<LongMerge>,
}

impl Open {
    /// Opens a chunk of `text`; `begins_stretch` as in [`super::items::ItemKind`].
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        text: &str,
        chunk: Item,
        begins_stretch: bool,
    ) -> Self {
        let own = text.get(chunk.start..chunk.end).unwrap_or("");
        let normalized = normalize(tokenizer, own, begins_stretch, chunk.start == 0);
        let (at, stop) = normalized.as_ref().map_or((chunk.start, chunk.end), |normalized| (0, normalized.len()));
        let mut open = Self { normalized, at, stop, part_end: at, token: None, long: None };
        open.find_part(tokenizer, tables, text);
        open
    }

    /// Works on; true when the chunk is done and all its tokens are in `out`.
    pub(crate) fn advance(
        &mut self,
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        workshop: &mut Workshop,
        text: &str,
        out: &mut Vec<TokenId>,
        budget: &mut Budget,
    ) -> bool {
        loop {
            if let Some(long) = &mut self.long {
                if !long.advance(tables, budget) {
                    return false;
                }
                out.extend(long.tokens());
                self.long = None;
            } else if self.at < self.part_end {
                let bytes = self.normalized.as_deref().unwrap_or(text).as_bytes();
                match tokenize_part(tokenizer, tables, workshop, bytes, (&mut self.at, self.part_end), out, budget) {
                    PartEnd::Done => {}
                    PartEnd::OverBudget => return false,
                    PartEnd::Long(long) => self.long = Some(long),
                }
            } else if let Some(token) = self.token.take() {
                out.push(token.id);
                self.at = token.end;
                self.find_part(tokenizer, tables, text);
            } else {
                return true;
            }
        }
    }

    fn find_part(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, text: &str) {
        let bytes = self.normalized.as_deref().unwrap_or(text).as_bytes();
        let bounded = bytes.get(..self.stop).unwrap_or(bytes);
        self.token = tokenizer.next_normalized(tables, bounded, self.at);
        self.part_end = self.token.map_or(self.stop, |token| token.start);
    }
}
