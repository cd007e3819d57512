//! Where a stretch of text may be cut so that both sides tokenize as they would together.
//!
//! A cut needs three things, whatever the text further left and right: some piece of the pre-tokenizer ends there, no look-ahead
//! and no optional tail of the piece before reaches across, and normalization does not either. With `|` for the cut:
//!
//! - visible ASCII `|` space: in every pattern a space begins a piece or follows white space.
//! - visible ASCII but no digit `|` ASCII digit: numbers are pieces of their own, and the left side does not end in white
//!   space, whose pieces depend on what follows.
//! - ASCII letter or digit `|` line feed: line breaks only follow punctuation inside a piece.
//! - letter `|` one of `、。，`: punctuation is never inside a word, and only an apostrophe can follow one in its piece.
//!
//! Tokenizers without a pre-tokenizer merge across everything; there the same cuts are made, except the last, when besides no merged token
//! holds the two characters side by side ([`JoinTable`](super::table::JoinTable)).
//!
//! The right side begins with ASCII or one of three characters that never compose with what precedes, so NFC of the whole
//! is NFC of the parts. Added tokens looked for in normalized text hold no white space when a normalizer is used (checked by the
//! compiler); with them only the first and third kind of cut are made.
//!
//! Which of the possible cuts is taken depends on the sixteen bytes before it and on the distance from the last cut alone, so that a
//! prefix of a text is cut as the text is, and two texts that share a passage soon cut it alike. For the latter, marked cuts are rare:
//! the chance that two rows of cuts meet at a mark is the distance between marks over that between cuts.

use super::image::{Family, Meta};
use super::table::{Class, ClassSet, ClassTable, Tables};

/// No chunk is cut shorter than this many bytes.
pub(crate) const SHORTEST: usize = 768;
/// From this length on, the next possible cut is taken.
const LONG: usize = 2048;
const LETTERS: ClassSet = ClassSet::of(&[Class::Upper, Class::Lower, Class::Letter]);

/// Which cuts a tokenizer allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cuts {
    spaces: bool,
    newlines: bool,
    numbers: bool,
    stops: bool,
    pre_tokenized: bool,
}

impl Cuts {
    /// The cuts that are proved for this tokenizer; `normalized_tokens` when it has added tokens found after normalization.
    pub(crate) fn of(meta: &Meta, normalized_tokens: bool) -> Self {
        match meta.family {
            Family::ByteLevel => {
                let pieces = meta.pattern != super::image::Pattern::Whole;
                {
                    let numbers = pieces && !normalized_tokens;
                    Self { spaces: pieces, newlines: pieces, numbers, stops: numbers, pre_tokenized: true }
                }
            }
            Family::Characters => {
                Self { spaces: true, newlines: true, numbers: !normalized_tokens, stops: false, pre_tokenized: false }
            }
        }
    }

    /// End of the chunk that begins at `start` in a stretch that ends at `end`.
    pub(crate) fn next(self, tables: &Tables<'_>, text: &[u8], start: usize, end: usize) -> usize {
        let mut at = start.saturating_add(SHORTEST);
        while at < end {
            if self.allowed(tables, text, at) && (at - start >= LONG || marked(text, at)) {
                return at;
            }
            at += 1;
        }
        end
    }

    /// Whether the text may be cut before `at`.
    #[inline]
    pub(crate) fn allowed(self, tables: &Tables<'_>, text: &[u8], at: usize) -> bool {
        let (Some(before), Some(after)) = (at.checked_sub(1).and_then(|at| text.get(at)), text.get(at)) else {
            return false;
        };
        let ends_piece = match after {
            b' ' => self.spaces && before.is_ascii_graphic(),
            b'\n' => self.newlines && before.is_ascii_alphanumeric(),
            b'0'..=b'9' => self.numbers && before.is_ascii_graphic() && !before.is_ascii_digit(),
            0xe3 | 0xef => {
                return self.stops && *before >= 0x80 && is_stop(text, at) && letter_before(&tables.classes, text, at);
            }
            _ => false,
        };
        ends_piece && (self.pre_tokenized || !tables.joins.ascii(*before, *after))
    }
}

/// `、`, `。` or `，`.
fn is_stop(text: &[u8], at: usize) -> bool {
    matches!(text.get(at..at + 3), Some([0xe3, 0x80, 0x81 | 0x82] | [0xef, 0xbc, 0x8c]))
}

fn letter_before(classes: &ClassTable<'_>, text: &[u8], at: usize) -> bool {
    let start = (1..=4)
        .filter_map(|back| at.checked_sub(back))
        .find(|at| text.get(*at).is_some_and(|byte| byte & 0xc0 != 0x80));
    start.and_then(|start| classes.at(text, start)).is_some_and(|(class, _)| LETTERS.has(class))
}

/// One in 64 places, told by the sixteen bytes before the cut.
#[inline]
fn marked(text: &[u8], at: usize) -> bool {
    let window = at.checked_sub(16).and_then(|from| text.get(from..)).and_then(|rest| rest.first_chunk::<16>());
    window.is_some_and(|window| {
        let window = u128::from_le_bytes(*window);
        let mixed = (window as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (window >> 64) as u64;
        mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 58 == 0
    })
}
