//! Which characters can stand side by side inside a token, for tokenizers that merge whole stretches of text.
//!
//! Merging never crosses a pair of characters that no merged token holds, so such a text falls into pieces there. The section has
//! one byte per pair, 129 kinds of left character major: the ASCII characters, `▁` in the place of the space it stands for, and one
//! kind for all others; 1 when some merged token holds the pair. Where a run of unknown characters gives one token, 1 also for two
//! characters that may both be unknown.

use super::decode;

/// Kinds of characters.
const KINDS: usize = 129;
const OTHER: usize = 128;
const MARK: &[u8] = "▁".as_bytes();

/// The table, in place.
#[derive(Clone, Copy, Debug)]
pub struct JoinTable<'a> {
    pairs: &'a [u8],
}

impl<'a> JoinTable<'a> {
    /// A view of the section.
    pub fn new(pairs: &'a [u8]) -> Self {
        Self { pairs }
    }

    /// Whether a token can hold the ASCII characters `left` and `right` side by side, a space meaning `▁`. Always, without a table.
    #[inline]
    pub(crate) fn ascii(&self, left: u8, right: u8) -> bool {
        self.kinds(usize::from(left), usize::from(right))
    }

    /// End of the piece of normalized text that begins at `start`.
    pub(crate) fn piece(&self, text: &[u8], start: usize) -> usize {
        let Some((mut left, length)) = kind(text, start) else { return start };
        let mut at = start + length;
        while let Some((right, length)) = kind(text, at) {
            if !self.kinds(left, right) {
                break;
            }
            left = right;
            at += length;
        }
        at.min(text.len())
    }

    #[inline]
    fn kinds(&self, left: usize, right: usize) -> bool {
        self.pairs.get(left * KINDS + right).is_none_or(|joins| *joins != 0)
    }
}

#[inline]
fn kind(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = *text.get(at)?;
    if first < 0x80 {
        return Some((usize::from(first), 1));
    }
    if first == 0xe2 && text.get(at..at + MARK.len()) == Some(MARK) {
        return Some((usize::from(b' '), MARK.len()));
    }
    Some((OTHER, decode(text, at, first).1))
}

/// Builds the section from the texts of all merged tokens. `single`: the texts of the one-character tokens, when runs of unknown
/// characters are fused.
pub fn build_joins<'t>(
    merged: impl Iterator<Item = &'t [u8]>,
    single: Option<impl Iterator<Item = &'t [u8]>>,
) -> Vec<u8> {
    let mut pairs = vec![0; KINDS * KINDS];
    for text in merged {
        let mut at = 0;
        let mut before: Option<usize> = None;
        while let Some((right, length)) = kind(text, at) {
            if let Some(joins) = before.and_then(|left| pairs.get_mut(left * KINDS + right)) {
                *joins = 1;
            }
            before = Some(right);
            at += length;
        }
    }
    let Some(single) = single else { return pairs };
    let mut unknown = [true; KINDS];
    for (known, length) in single.filter_map(|text| Some((kind(text, 0)?, text.len()))) {
        // Some other character can always be unknown.
        if known.0 != OTHER
            && known.1 == length
            && let Some(unknown) = unknown.get_mut(known.0)
        {
            *unknown = false;
        }
    }
    for (left, row) in unknown.iter().zip(pairs.chunks_exact_mut(KINDS)) {
        for (right, joins) in unknown.iter().zip(row) {
            if *left && *right {
                *joins = 1;
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_no_token_reaches_across() {
        let tokens = ["▁th", "the", "▁▁", ">▁</", "é中"];
        let none: Option<std::iter::Empty<&[u8]>> = None;
        let pairs = build_joins(tokens.iter().map(|token| token.as_bytes()), none);
        let table = JoinTable::new(&pairs);
        let text = "▁▁the1▁the>▁</中é\n\n";
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let end = table.piece(text.as_bytes(), at);
            pieces.push(&text[at..end]);
            at = end;
        }
        assert_eq!(pieces, ["▁▁the", "1", "▁the", ">▁</", "中é", "\n", "\n"]);
        assert!(table.ascii(b'>', b' ') && !table.ascii(b'e', b' '));
        assert_eq!(JoinTable::new(&[]).piece(text.as_bytes(), 0), text.len());
    }

    #[test]
    fn runs_of_unknown_characters_stay_together() {
        let none: std::iter::Empty<&[u8]> = std::iter::empty();
        let pairs = build_joins(none, Some(["a", "▁", "é"].iter().map(|text| text.as_bytes())));
        let table = JoinTable::new(&pairs);
        assert!(table.ascii(b'\n', b'\t') && !table.ascii(b'a', b'\t') && !table.ascii(b'\n', b' '));
        assert_eq!(table.piece("\n\té\u{1}a".as_bytes(), 0), 5);
    }
}
