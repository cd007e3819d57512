//! Three expressions one after another, each on what the one before left over:
//!
//! 1. `\p{N}{1,3}`
//! 2. `[一-龥぀-ゟ゠-ヿ]+`
//! 3. ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``
//!
//! What the third leaves over is a piece too. A number or a character of the second expression ends the text for the third.

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
    if is_cjk(text, start) {
        return run_cjk(text, start);
    }
    if let Some(end) = third(classes, text, start) {
        return end;
    }
    // Nothing matches here: everything up to the next match is one piece.
    let mut end = start + length;
    while stretch_at(classes, text, end).0 != END && third(classes, text, end).is_none() {
        end += stretch_at(classes, text, end).1;
    }
    end
}

/// The class at `at`, or [`END`] where the stretch the third expression sees is over.
#[inline]
fn stretch_at(classes: &ClassTable<'_>, text: &[u8], at: usize) -> (u8, usize) {
    match classes.at(text, at) {
        Some((class, length)) if !NUMBERS.has(class) && !is_cjk(text, at) => (class, length),
        _ => (END, 0),
    }
}

/// The third expression at `start`, whose class is neither a number nor CJK.
#[inline]
fn third(classes: &ClassTable<'_>, text: &[u8], start: usize) -> Option<usize> {
    let (class, length) = stretch_at(classes, text, start);
    let (after, width) = stretch_at(classes, text, start + length);
    if length == 1 && SIGNS.has(class) && text.get(start + 1).is_some_and(u8::is_ascii_alphabetic) {
        return Some(ascii_letters(text, start + 1));
    }
    if LEAD.has(class) && WORD.has(after) {
        return Some(run_stretch(classes, text, start + length + width, WORD));
    }
    if WORD.has(class) {
        return Some(run_stretch(classes, text, start + length, WORD));
    }
    if SIGNS.has(class) {
        return Some(signs(classes, text, start + length));
    }
    if text.get(start) == Some(&b' ') && SIGNS.has(after) {
        return Some(signs(classes, text, start + 1 + width));
    }
    WHITE.has(class).then(|| white(classes, text, start))
}

fn signs(classes: &ClassTable<'_>, text: &[u8], at: usize) -> usize {
    let end = run_stretch(classes, text, at, SIGNS);
    run(classes, text, end, NEWLINES)
}

/// The white-space alternatives, with the stretch's end as the end of the text.
fn white(classes: &ClassTable<'_>, text: &[u8], start: usize) -> usize {
    let end = run(classes, text, start, WHITE);
    let stretch_ends = stretch_at(classes, text, end).0 == END;
    let seen = if stretch_ends { end } else { text.len() };
    super::whitespace::next(classes, text.get(..seen).unwrap_or(text), start, true)
}

#[inline]
fn run_stretch(classes: &ClassTable<'_>, text: &[u8], mut at: usize, set: ClassSet) -> usize {
    loop {
        let (class, length) = stretch_at(classes, text, at);
        if length == 0 || !set.has(class) {
            return at;
        }
        at += length;
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

fn run_cjk(text: &[u8], mut at: usize) -> usize {
    while is_cjk(text, at) {
        at += 3;
    }
    at
}
