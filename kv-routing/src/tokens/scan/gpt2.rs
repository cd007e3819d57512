//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

use super::{ClassSet, ClassTable, LETTERS, NUMBERS, WHITE, contraction, run, whitespace};

const OTHERS: ClassSet = LETTERS.and(NUMBERS).and(WHITE).complement();

#[inline]
pub(super) fn next(classes: &ClassTable<'_>, text: &[u8], start: usize) -> usize {
    if let Some(end) = contraction::lower_case(text, start) {
        return end;
    }
    let body = if text.get(start) == Some(&b' ') { start + 1 } else { start };
    let Some((class, length)) = classes.at(text, body) else {
        return whitespace::next(classes, text, start, false);
    };
    let set = if LETTERS.has(class) {
        LETTERS
    } else if NUMBERS.has(class) {
        NUMBERS
    } else if OTHERS.has(class) {
        OTHERS
    } else {
        return whitespace::next(classes, text, start, false);
    };
    run(classes, text, body + length, set)
}
