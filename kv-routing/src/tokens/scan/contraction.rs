//! English contractions: `(?i:'s|'t|'re|'ve|'m|'ll|'d)`.

/// End of the contraction at `at`, in any case. The long s (`ſ`, U+017F) folds to `s` and counts as one.
#[inline]
pub(super) fn any_case(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'\'') {
        return None;
    }
    let second = text.get(at + 2).map(u8::to_ascii_lowercase);
    match (text.get(at + 1)?.to_ascii_lowercase(), second) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) | (0xc5, Some(0xbf)) => Some(at + 3),
        _ => None,
    }
}

/// End of the lower-case contraction at `at`.
#[inline]
pub(super) fn lower_case(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'\'') {
        return None;
    }
    match (text.get(at + 1)?, text.get(at + 2)) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(at + 3),
        _ => None,
    }
}
