//! Three expressions one after another, each on what the one before left over:
//!
//! 1. `\p{N}{1,3}`
//! 2. `[一-龥぀-ゟ゠-ヿ]+`
//! 3. ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``
//!
//! What the third leaves over is a piece too. It sees each match of the second, and each stretch between matches of the first two, as a text
//! of its own: not every character of the second's set is a letter (`・` and `゜` are signs), so a match may come apart again.

use super::{Class, ClassSet, ClassTable, Digits, LETTERS, MARKS, NEWLINES, NUMBERS, WHITE, number, run};
use crate::tokens::table::decode;

const WORD: ClassSet = LETTERS.and(MARKS);
const SIGNS: ClassSet = ClassSet::of(&[Class::Punctuation, Class::Symbol]);
const LEAD: ClassSet = LETTERS.and(SIGNS).and(NEWLINES).complement();
/// Stands for the end of the text.
const END: u8 = Class::Number as u8;

#[inline]
pub(super) fn next(classes: &ClassTable<'_>, text: &[u8], start: usize) -> usize {
    let Some((class, length)) = classes.at(text, start) else {
        return start;
    };
    if NUMBERS.has(class) {
        return number(classes, text, start, length, Digits::UpToThree);
    }
    let stretch = Stretch { classes, text, cjk: is_cjk(text, start) };
    if let Some(end) = stretch.third(start) {
        return end;
    }
    // Nothing matches here: everything up to the next match is one piece.
    let mut end = start + length;
    while stretch.at(end).0 != END && stretch.third(end).is_none() {
        end += stretch.at(end).1;
    }
    end
}

/// What the third expression sees at a time: a match of the second one, or what lies between matches of the first two.
#[derive(Clone, Copy)]
struct Stretch<'t> {
    classes: &'t ClassTable<'t>,
    text: &'t [u8],
    cjk: bool,
}

impl Stretch<'_> {
    /// The class at `at`, or [`END`] where the stretch is over.
    #[inline]
    fn at(self, at: usize) -> (u8, usize) {
        match self.classes.at(self.text, at) {
            Some((class, length)) if !NUMBERS.has(class) && is_cjk(self.text, at) == self.cjk => (class, length),
            _ => (END, 0),
        }
    }

    /// The third expression at `start`, which lies in the stretch.
    #[inline]
    fn third(self, start: usize) -> Option<usize> {
        let (class, length) = self.at(start);
        let (after, width) = self.at(start + length);
        if length == 1 && SIGNS.has(class) && self.text.get(start + 1).is_some_and(u8::is_ascii_alphabetic) {
            return Some(ascii_letters(self.text, start + 1));
        }
        if LEAD.has(class) && WORD.has(after) {
            return Some(self.run(start + length + width, WORD));
        }
        if WORD.has(class) {
            return Some(self.run(start + length, WORD));
        }
        if SIGNS.has(class) {
            return Some(self.signs(start + length));
        }
        if self.text.get(start) == Some(&b' ') && SIGNS.has(after) {
            return Some(self.signs(start + 1 + width));
        }
        WHITE.has(class).then(|| self.white(start))
    }

    fn signs(self, at: usize) -> usize {
        let end = self.run(at, SIGNS);
        // Line breaks are in no match of the second expression.
        if self.cjk { end } else { run(self.classes, self.text, end, NEWLINES) }
    }

    /// The white-space alternatives, with the stretch's end as the end of the text.
    fn white(self, start: usize) -> usize {
        let end = run(self.classes, self.text, start, WHITE);
        let seen = if self.at(end).0 == END { end } else { self.text.len() };
        super::whitespace::next(self.classes, self.text.get(..seen).unwrap_or(self.text), start, true)
    }

    #[inline]
    fn run(self, mut at: usize, set: ClassSet) -> usize {
        loop {
            let (class, length) = self.at(at);
            if length == 0 || !set.has(class) {
                return at;
            }
            at += length;
        }
    }
}

fn ascii_letters(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_alphabetic) {
        at += 1;
    }
    at
}

/// Whether the character at `at` is in the second expression's set: U+3040 to U+30FF, U+4E00 to U+9FA5.
#[inline]
fn is_cjk(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        Some(first @ 0xe3..=0xe9) => {
            let (code_point, _) = decode(text, at, *first);
            matches!(code_point, 0x3040..=0x30ff | 0x4e00..=0x9fa5)
        }
        _ => false,
    }
}
