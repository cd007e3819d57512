//! A prompt as a row of items: added tokens, and chunks of the text between them.

use super::table::Tables;
use super::tokenizer::Tokenizer;
use crate::block::TokenId;

/// One item of a prompt's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: ItemKind,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// An added token of the raw text, with the white space that belongs to it.
    Added(TokenId),
    /// A chunk of text; whether it begins a stretch between added tokens.
    Chunk {
        /// Behind an added token, or at the beginning of the text.
        begins_stretch: bool,
    },
}

/// Goes over a text item by item.
#[derive(Debug)]
pub(crate) struct Items {
    at: usize,
    stretch_start: usize,
    stretch_end: usize,
    /// The added token at `stretch_end`: its end and id.
    token: Option<(usize, TokenId)>,
}

impl Items {
    pub(crate) fn new(tokenizer: &Tokenizer, tables: &Tables<'_>, text: &[u8]) -> Self {
        let mut items = Self { at: 0, stretch_start: 0, stretch_end: 0, token: None };
        items.find_stretch(tokenizer, tables, text, 0);
        items
    }

    /// The next item, `None` at the end of the text.
    pub(crate) fn next(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, text: &[u8]) -> Option<Item> {
        let start = self.at;
        if start < self.stretch_end {
            let end = tokenizer.cuts().next(tables, text, start, self.stretch_end);
            self.at = end;
            let begins_stretch = start == self.stretch_start;
            return Some(Item { start, end, kind: ItemKind::Chunk { begins_stretch } });
        }
        let (end, id) = self.token?;
        self.find_stretch(tokenizer, tables, text, end);
        Some(Item { start, end, kind: ItemKind::Added(id) })
    }

    fn find_stretch(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, text: &[u8], start: usize) {
        let found = tokenizer.next_raw(tables, text, start);
        *self = Self {
            at: start,
            stretch_start: start,
            stretch_end: found.map_or(text.len(), |token| token.start),
            token: found.map(|token| (token.end, token.id)),
        };
    }
}
