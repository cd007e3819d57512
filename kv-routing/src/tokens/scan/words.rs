//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//!
//! D is 1 or 3. With marks, `\p{L}` reads `[\p{L}\p{M}]` in the second alternative and `\p{M}` joins the excluded set of the fourth.

use super::{
    ClassSet, ClassTable, Digits, LETTERS, MARKS, NEWLINES, NUMBERS, WHITE, contraction, number, run, whitespace,
};

const WORDS: ClassSet = LETTERS;
const WORDS_AND_MARKS: ClassSet = LETTERS.and(MARKS);
/// What may stand before the letters of a word.
const LEAD: ClassSet = LETTERS.and(NUMBERS).and(NEWLINES).complement();
const OTHERS: ClassSet = LETTERS.and(NUMBERS).and(WHITE).complement();
const OTHERS_BUT_MARKS: ClassSet = LETTERS.and(NUMBERS).and(WHITE).and(MARKS).complement();

#[inline]
pub(super) fn next(classes: &ClassTable<'_>, text: &[u8], start: usize, digits: Digits, marks: bool) -> usize {
    let (word, others) = if marks { (WORDS_AND_MARKS, OTHERS_BUT_MARKS) } else { (WORDS, OTHERS) };
    let Some((class, length)) = classes.at(text, start) else {
        return start;
    };
    if word.has(class) {
        return run(classes, text, start + length, word);
    }
    if let Some(end) = contraction::any_case(text, start) {
        return end;
    }
    if NUMBERS.has(class) {
        return number(classes, text, start, length, digits);
    }
    let second = classes.at(text, start + length);
    if LEAD.has(class)
        && let Some((after, width)) = second
        && word.has(after)
    {
        return run(classes, text, start + length + width, word);
    }
    let body = if others.has(class) {
        start + length
    } else if text.get(start) == Some(&b' ') && second.is_some_and(|(after, _)| others.has(after)) {
        start + 1
    } else {
        return whitespace::next(classes, text, start, true);
    };
    let end = run(classes, text, body, others);
    run(classes, text, end, NEWLINES)
}
