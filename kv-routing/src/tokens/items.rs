//! A prompt as a row of items: added tokens, stand-ins for images and the like, and chunks of the text between them.

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
    /// The stand-in for an image or the like, which takes no text.
    StandIn(TokenId),
}

/// Goes over a text item by item.
#[derive(Debug)]
pub(crate) struct Items {
    at: usize,
    stretch_start: usize,
    stretch_end: usize,
    /// The added token at `stretch_end`: its end and id.
    token: Option<(usize, TokenId)>,
    /// Stand-ins with the byte offsets where they lie, in order, and how many are done.
    stand_ins: Vec<(usize, TokenId)>,
    passed: usize,
}

impl Items {
    /// Nothing is looked at before [`Items::begin`].
    pub(crate) fn new(stand_ins: Vec<(usize, TokenId)>) -> Self {
        Self { at: 0, stretch_start: 0, stretch_end: 0, token: None, stand_ins, passed: 0 }
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
        let (end, kind) = match (self.token, self.stand_ins.get(self.passed)) {
            (Some((end, id)), _) => (end, ItemKind::Added(id)),
            (None, Some((_, id))) => {
                self.passed += 1;
                (start, ItemKind::StandIn(*id))
            }
            (None, None) => return None,
        };
        self.find_stretch(tokenizer, tables, text, end);
        Some(Item { start, end, kind })
    }

    /// Begins at `at`, the start of the text or the end of an item; `in_stretch`: not behind an added token.
    pub(crate) fn begin(
        &mut self,
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        text: &[u8],
        at: usize,
        in_stretch: bool,
    ) {
        self.find_stretch(tokenizer, tables, text, at);
        if in_stretch {
            self.stretch_start = 0;
        }
    }

    /// Whether the item that ends at `end` is a chunk with more of its stretch behind it.
    pub(crate) fn within_stretch(&self, end: usize) -> bool {
        self.at == end && end < self.stretch_end && end > self.stretch_start
    }

    /// The stretch from `start` on ends at an added token, at a stand-in or at the end of the text.
    fn find_stretch(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, text: &[u8], start: usize) {
        let stop = self.stand_ins.get(self.passed).map_or(text.len(), |(at, _)| (*at).clamp(start, text.len()));
        let found = tokenizer.next_raw(tables, text.get(..stop).unwrap_or(text), start);
        self.at = start;
        self.stretch_start = start;
        self.stretch_end = found.map_or(stop, |token| token.start);
        self.token = found.map(|token| (token.end, token.id));
    }
}
