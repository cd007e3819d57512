//! Pre-tokenizers: where the next piece of a text ends.
//!
//! Each known regular expression has a scanner of its own that gives the same pieces; the expressions stand in the module that
//! implements them. A scanner sees one part of the text at a time: the end of the slice is the end of the text to it.

mod cased;
mod contraction;
mod deepseek;
mod gpt2;
mod whitespace;
mod words;

use super::image::{Digits, Pattern};
use super::table::{Class, ClassSet, ClassTable};

const LETTERS: ClassSet = ClassSet::of(&[Class::Upper, Class::Lower, Class::Letter]);
const MARKS: ClassSet = ClassSet::of(&[Class::Mark]);
const NUMBERS: ClassSet = ClassSet::of(&[Class::Number]);
const WHITE: ClassSet = ClassSet::of(&[Class::Space, Class::Newline]);
const NEWLINES: ClassSet = ClassSet::of(&[Class::Newline]);

/// A pre-tokenizer over its class table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pattern: Pattern,
    classes: ClassTable<'a>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(pattern: Pattern, classes: ClassTable<'a>) -> Self {
        Self { pattern, classes }
    }

    /// End of the piece that begins at `start`, which lies inside `text`. Always past `start`.
    #[inline]
    pub(crate) fn next(&self, text: &[u8], start: usize) -> usize {
        let classes = &self.classes;
        let end = match self.pattern {
            Pattern::Whole => text.len(),
            Pattern::Words { digits, marks } => words::next(classes, text, start, digits, marks),
            Pattern::Cased { digits, contractions, han, slash } => {
                cased::next(classes, text, start, cased::Rules { digits, contractions, han, slash })
            }
            Pattern::DeepSeek => deepseek::next(classes, text, start),
            Pattern::Gpt2 => gpt2::next(classes, text, start),
        };
        end.max(start + 1).min(text.len())
    }
}

/// End of the run of characters in `set` from `at` on.
#[inline]
fn run(classes: &ClassTable<'_>, text: &[u8], mut at: usize, set: ClassSet) -> usize {
    while let Some((class, length)) = classes.at(text, at) {
        if !set.has(class) {
            break;
        }
        at += length;
    }
    at
}

/// End of the digits that make one piece; the first is at `at` and `first` bytes long.
#[inline]
fn number(classes: &ClassTable<'_>, text: &[u8], at: usize, first: usize, digits: Digits) -> usize {
    let mut end = at + first;
    if digits == Digits::One {
        return end;
    }
    for _ in 0..2 {
        match classes.at(text, end) {
            Some((class, length)) if NUMBERS.has(class) => end += length,
            _ => break,
        }
    }
    end
}
