//! Where a stretch of text may be cut so that both sides tokenize as they would together.
//!
//! A cut needs three things, whatever the text further left and right: some piece of the pre-tokenizer ends there, no look-ahead
//! and no optional tail of the piece before reaches across, and normalization does not either. With `|` for the cut:
//!
//! - visible ASCII `|` space: in every pattern a space begins a piece or follows white space. SentencePiece vocabularies
//!   allow this one alone, and only when no token has a `▁` behind another character (checked by the compiler).
//! - visible ASCII but no digit `|` ASCII digit: numbers are pieces of their own, and the left side does not end in white
//!   space, whose pieces depend on what follows.
//! - ASCII letter or digit `|` line feed: line breaks only follow punctuation inside a piece.
//! - letter `|` one of `、。，`: punctuation is never inside a word, and only an apostrophe can follow one in its piece.
//!
//! The right side begins with ASCII or one of three characters that never compose with what precedes, so NFC of the whole
//! is NFC of the parts. Added tokens looked for in normalized text hold no white space when a normalizer is used (checked by the
//! compiler); with them only the first and third kind of cut are made.
//!
//! Which of the possible cuts is taken depends on the text around it and on the distance from the last cut alone, so that a
//! prefix of a text is cut as the text is, and two texts that share a passage come to cut it alike.

use super::image::{Family, Meta};
use super::table::{Class, ClassSet, ClassTable};

/// No chunk is cut shorter than this many bytes.
pub(crate) const SHORTEST: usize = 1024;
/// From this length on, the next possible cut is taken.
const LONG: usize = 1536;
const LETTERS: ClassSet = ClassSet::of(&[Class::Upper, Class::Lower, Class::Letter]);

/// Which cuts a tokenizer allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cuts {
    spaces: bool,
    newlines: bool,
    others: bool,
}

impl Cuts {
    /// The cuts that are proved for this tokenizer; `normalized_tokens` when it has added tokens found after normalization.
    pub(crate) fn of(meta: &Meta, normalized_tokens: bool) -> Self {
        match meta.family {
            Family::ByteLevel => {
                let pieces = meta.pattern != super::image::Pattern::Whole;
                Self { spaces: pieces, newlines: pieces, others: pieces && !normalized_tokens }
            }
            Family::Characters => Self { spaces: meta.flags.word_starts, newlines: false, others: false },
        }
    }

    /// End of the chunk that begins at `start` in a stretch that ends at `end`.
    pub(crate) fn next(self, classes: &ClassTable<'_>, text: &[u8], start: usize, end: usize) -> usize {
        let mut at = start.saturating_add(SHORTEST);
        while at < end {
            if self.allowed(classes, text, at) && (at - start >= LONG || marked(text, at)) {
                return at;
            }
            at += 1;
        }
        end
    }

    /// Whether the text may be cut before `at`.
    #[inline]
    fn allowed(self, classes: &ClassTable<'_>, text: &[u8], at: usize) -> bool {
        let (Some(before), Some(after)) = (at.checked_sub(1).and_then(|at| text.get(at)), text.get(at)) else {
            return false;
        };
        match after {
            b' ' => self.spaces && before.is_ascii_graphic(),
            b'\n' => self.newlines && before.is_ascii_alphanumeric(),
            b'0'..=b'9' => self.others && before.is_ascii_graphic() && !before.is_ascii_digit(),
            0xe3 | 0xef => self.others && *before >= 0x80 && is_stop(text, at) && letter_before(classes, text, at),
            _ => false,
        }
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

/// One in four places, told by the eight bytes before the cut.
#[inline]
fn marked(text: &[u8], at: usize) -> bool {
    let window = at.checked_sub(8).and_then(|from| text.get(from..)).and_then(|rest| rest.first_chunk::<8>());
    window.is_some_and(|window| u64::from_le_bytes(*window).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0)
}
