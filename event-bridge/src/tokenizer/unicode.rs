//! Unicode tables of the reference, read out of the crates it uses.
//!
//! Classes come from `regex-syntax` (Unicode 16), which the library's regular expressions use; NFC comes from
//! `unicode-normalization-alignments` (Unicode 9), which its normalizer uses. The two do not agree on which characters exist, and neither
//! may be replaced by a newer one: the filter has to compute what the engine computes.

use std::collections::BTreeSet;

use kv_routing::tokens::Normalization;
use kv_routing::tokens::image::UnicodeVersion;
use kv_routing::tokens::table::{Class, HAN, NFC_UNSAFE};
use regex_syntax::hir::{Class as HirClass, HirKind};
use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::{canonical_combining_class, compose, decompose_canonical};

use super::Unsupported;

const CODE_POINTS: usize = 0x11_0000;
const HANGUL: std::ops::RangeInclusive<u32> = 0xac00..=0xd7a3;

/// Version of the class tables.
pub(super) const CLASSES: UnicodeVersion = UnicodeVersion(16, 0, 0);
/// Version of the normalization tables.
pub(super) const NORMALIZATION: UnicodeVersion = UnicodeVersion(9, 0, 0);

/// Class byte of every code point; with `normalization`, [`NFC_UNSAFE`] is set where NFC has to look closer.
pub(super) fn classes(normalization: Option<&Normalization>) -> Result<Vec<u8>, Unsupported> {
    let mut values = vec![Class::Other as u8; CODE_POINTS];
    for (expression, class) in [
        (r"\p{Lu}", Class::Upper),
        (r"\p{Lt}", Class::Upper),
        (r"\p{Ll}", Class::Lower),
        (r"\p{Lm}", Class::Letter),
        (r"\p{Lo}", Class::Letter),
        (r"\p{M}", Class::Mark),
        (r"\p{N}", Class::Number),
        (r"\p{P}", Class::Punctuation),
        (r"\p{S}", Class::Symbol),
        (r"\s", Class::Space),
        (r"[\r\n]", Class::Newline),
    ] {
        for_each(expression, &mut values, |value| *value = class as u8)?;
    }
    for_each(r"\p{Han}", &mut values, |value| *value |= HAN)?;
    if let Some(normalization) = normalization {
        let seconds: BTreeSet<u32> = normalization.compositions.iter().map(|(_, second, _)| *second).collect();
        for (code_point, value) in (0_u32..).zip(values.iter_mut()) {
            if is_unsafe(code_point, &seconds) {
                *value |= NFC_UNSAFE;
            }
        }
    }
    Ok(values)
}

fn for_each(expression: &str, values: &mut [u8], change: impl Fn(&mut u8)) -> Result<(), Unsupported> {
    let refuse = || Unsupported::new("unicode", format!("`{expression}` is no class"));
    let hir = regex_syntax::parse(expression).map_err(|_| refuse())?;
    let HirKind::Class(HirClass::Unicode(class)) = hir.kind() else { return Err(refuse()) };
    for range in class.ranges() {
        let range = range.start() as usize..=range.end() as usize;
        values.get_mut(range).ok_or_else(refuse)?.iter_mut().for_each(&change);
    }
    Ok(())
}

/// Combining classes, decompositions and compositions.
pub(super) fn normalization() -> Normalization {
    let mut combining = vec![0; CODE_POINTS];
    let mut decompositions = Vec::new();
    for character in (0..CODE_POINTS as u32).filter_map(char::from_u32) {
        if let Some(slot) = combining.get_mut(character as usize) {
            *slot = canonical_combining_class(character);
        }
        if HANGUL.contains(&(character as u32)) {
            continue;
        }
        let mut parts = Vec::new();
        decompose_canonical(character, |part| parts.push(part as u32));
        if parts != [character as u32] {
            decompositions.push((character as u32, parts));
        }
    }
    let compositions = compositions(&decompositions);
    Normalization { combining, decompositions, compositions }
}

/// Every pair that composes. A first is part of a decomposition or has one itself, a second is a later part of one.
fn compositions(decompositions: &[(u32, Vec<u32>)]) -> Vec<(u32, u32, u32)> {
    let mut firsts = BTreeSet::new();
    let mut seconds = BTreeSet::new();
    for (code_point, parts) in decompositions {
        firsts.insert(*code_point);
        firsts.extend(parts);
        seconds.extend(parts.get(1..).unwrap_or(&[]));
    }
    let character = |code_point: &u32| char::from_u32(*code_point);
    let mut pairs = Vec::new();
    for first in firsts.iter().filter_map(character) {
        for second in seconds.iter().filter_map(character) {
            if let Some(composed) = compose(first, second) {
                pairs.push((first as u32, second as u32, composed as u32));
            }
        }
    }
    pairs
}

fn is_unsafe(code_point: u32, seconds: &BTreeSet<u32>) -> bool {
    let Some(character) = char::from_u32(code_point) else { return false };
    let jamo = matches!(code_point, 0x1161..=0x1175 | 0x11a8..=0x11c2);
    let text = character.to_string();
    let changes = !text.nfc().map(|(character, _)| character).eq([character]);
    canonical_combining_class(character) != 0 || seconds.contains(&code_point) || jamo || changes
}
