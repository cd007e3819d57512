//! With `U` for `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `L` for `[\p{Ll}\p{Lm}\p{Lo}\p{M}]` and `C` for `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`:
//!
//! `[^\r\n\p{L}\p{N}]?U*L+C|[^\r\n\p{L}\p{N}]?U+L*C|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//!
//! Contractions and the slash are optional. With Han, `\p{Han}+` is the first alternative and `U` and `L` leave Han characters out.

use super::{
    Class, ClassSet, ClassTable, Digits, LETTERS, MARKS, NEWLINES, NUMBERS, WHITE, contraction, number, run, whitespace,
};
use crate::tokens::table::HAN;

const UPPER: ClassSet = ClassSet::of(&[Class::Upper, Class::Letter, Class::Mark]);
const LOWER: ClassSet = ClassSet::of(&[Class::Lower, Class::Letter, Class::Mark]);
const SMALL: ClassSet = ClassSet::of(&[Class::Lower]);
const LEAD: ClassSet = LETTERS.and(NUMBERS).and(NEWLINES).complement();
const OTHERS: ClassSet = LETTERS.and(NUMBERS).and(WHITE).complement();

/// The variable parts of the expression.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) digits: Digits,
    pub(super) contractions: bool,
    pub(super) han: bool,
    pub(super) slash: bool,
}

#[inline]
pub(super) fn next(classes: &ClassTable<'_>, text: &[u8], start: usize, rules: Rules) -> usize {
    let Some((class, length)) = classes.at(text, start) else {
        return start;
    };
    if rules.han && class & HAN != 0 {
        return run_han(classes, text, start + length);
    }
    if let Some(end) = word(classes, text, start, class, length, rules) {
        return if rules.contractions { contraction::any_case(text, end).unwrap_or(end) } else { end };
    }
    if NUMBERS.has(class) {
        return number(classes, text, start, length, rules.digits);
    }
    let body = if OTHERS.has(class) {
        start + length
    } else if text.get(start) == Some(&b' ') && classes.at(text, start + 1).is_some_and(|(after, _)| OTHERS.has(after))
    {
        start + 1
    } else {
        return whitespace::next(classes, text, start, true);
    };
    let mut end = run(classes, text, body, OTHERS);
    while let Some(byte) = text.get(end) {
        if !(matches!(byte, b'\r' | b'\n') || (rules.slash && *byte == b'/')) {
            break;
        }
        end += 1;
    }
    end
}

/// The first two alternatives without their contraction: with the lead if that works, else without.
#[inline]
fn word(classes: &ClassTable<'_>, text: &[u8], start: usize, class: u8, length: usize, rules: Rules) -> Option<usize> {
    let with_lead = |accept: fn(&ClassTable<'_>, &[u8], usize, bool) -> Option<usize>| {
        if LEAD.has(class) { accept(classes, text, start + length, rules.han) } else { None }
    };
    let without = |accept: fn(&ClassTable<'_>, &[u8], usize, bool) -> Option<usize>| {
        if LETTERS.and(MARKS).has(class) { accept(classes, text, start, rules.han) } else { None }
    };
    with_lead(ending_lower)
        .or_else(|| without(ending_lower))
        .or_else(|| with_lead(all_upper))
        .or_else(|| without(all_upper))
}

/// `U*L+`
#[inline]
fn ending_lower(classes: &ClassTable<'_>, text: &[u8], start: usize, han: bool) -> Option<usize> {
    let mut at = start;
    let mut behind_both = None;
    while let Some((class, length)) = classes.at(text, at) {
        if han && class & HAN != 0 {
            break;
        }
        if !UPPER.has(class) {
            if SMALL.has(class) {
                return Some(run_cased(classes, text, at + length, LOWER, han));
            }
            break;
        }
        at += length;
        if LOWER.has(class) {
            behind_both = Some(at);
        }
    }
    // Nothing but a caseless letter or a mark can play the lower-case part, so the match ends behind the last of them.
    behind_both
}

/// `U+L*`
#[inline]
fn all_upper(classes: &ClassTable<'_>, text: &[u8], start: usize, han: bool) -> Option<usize> {
    let end = run_cased(classes, text, start, UPPER, han);
    if end == start { None } else { Some(run_cased(classes, text, end, LOWER, han)) }
}

#[inline]
fn run_cased(classes: &ClassTable<'_>, text: &[u8], mut at: usize, set: ClassSet, han: bool) -> usize {
    while let Some((class, length)) = classes.at(text, at) {
        if !set.has(class) || (han && class & HAN != 0) {
            break;
        }
        at += length;
    }
    at
}

fn run_han(classes: &ClassTable<'_>, text: &[u8], mut at: usize) -> usize {
    while let Some((class, length)) = classes.at(text, at) {
        if class & HAN == 0 {
            break;
        }
        at += length;
    }
    at
}
