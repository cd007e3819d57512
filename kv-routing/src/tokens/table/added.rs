//! Added tokens: texts that are cut out before anything else looks at the text.

use super::{ClassSet, ClassTable, Trie, build_trie};
use crate::block::TokenId;
use crate::tokens::table::Class;

/// An added token, as the compiler hands it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedToken {
    /// Its text, normalized already when it is looked for in normalized text.
    pub text: String,
    /// Its id.
    pub id: TokenId,
    /// White space before it belongs to it.
    pub strip_left: bool,
    /// White space behind it belongs to it.
    pub strip_right: bool,
}

/// Ids are below this; the bits above say what is stripped.
const ID_BITS: u32 = 28;
const STRIP_LEFT: u32 = 1 << ID_BITS;
const STRIP_RIGHT: u32 = 1 << (ID_BITS + 1);
/// More bytes than this to look for one after another, and a table look-up per byte is faster.
const FEW: usize = 4;
const WHITE: ClassSet = ClassSet::of(&[Class::Space, Class::Newline]);

/// Builds the section for one of the two searches; `None` when two tokens have the same text, or an id is too large.
pub fn build_added(tokens: &[AddedToken]) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for token in tokens {
        if token.id.0 >= STRIP_LEFT {
            return None;
        }
        let mut value = token.id.0;
        if token.strip_left {
            value |= STRIP_LEFT;
        }
        if token.strip_right {
            value |= STRIP_RIGHT;
        }
        entries.push((token.text.as_bytes().to_vec(), value));
    }
    build_trie(&entries)
}

/// One added token found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedMatch {
    /// Where it begins, stripped white space included.
    pub start: usize,
    /// Where it ends, stripped white space included.
    pub end: usize,
    /// Its id.
    pub id: TokenId,
}

/// What is known about one search before any text: which bytes a token can begin with.
#[derive(Clone, Debug)]
pub struct AddedSet {
    first: Vec<u8>,
    begins: Box<[bool; 256]>,
    longest: usize,
}

impl AddedSet {
    /// Looks at the section once.
    pub fn new(section: &[u8]) -> Self {
        let trie = Trie::new(section);
        let first: Vec<u8> = (0..=255).filter(|byte| trie.begins_with(*byte)).collect();
        let mut begins = Box::new([false; 256]);
        for byte in &first {
            if let Some(begins) = begins.get_mut(usize::from(*byte)) {
                *begins = true;
            }
        }
        Self { first, begins, longest: trie.depth() }
    }

    /// Whether there is no token to look for.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Bytes of the longest token, without white space that it may take.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The next added token of `text[from..]`: leftmost, and of those the longest. `section` is the one given to [`AddedSet::new`].
    pub fn next(&self, section: &[u8], classes: &ClassTable<'_>, text: &[u8], from: usize) -> Option<AddedMatch> {
        let trie = Trie::new(section);
        let mut at = from;
        loop {
            at = self.candidate(text, at)?;
            if let Some((value, end)) = trie.longest(text, at) {
                let id = TokenId(value & (STRIP_LEFT - 1));
                let start = if value & STRIP_LEFT == 0 { at } else { strip_left(classes, text, from, at) };
                let end = if value & STRIP_RIGHT == 0 { end } else { strip_right(classes, text, end) };
                return Some(AddedMatch { start, end, id });
            }
            at += 1;
        }
    }

    /// The next position that holds a byte some token begins with.
    #[inline]
    fn candidate(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let offset = match *self.first.as_slice() {
            [] => None,
            [a] => position(rest, |byte| byte == a),
            [a, b] => position(rest, |byte| (byte == a) | (byte == b)),
            [a, b, c] => position(rest, |byte| (byte == a) | (byte == b) | (byte == c)),
            [a, b, c, d] => position(rest, |byte| (byte == a) | (byte == b) | (byte == c) | (byte == d)),
            _ => rest.iter().position(|byte| self.begins.get(usize::from(*byte)).copied().unwrap_or(false)),
        };
        debug_assert!(self.first.len() > FEW || offset.is_none_or(|offset| offset < rest.len()));
        offset.map(|offset| from + offset)
    }
}

/// First position the test holds at. Whole lines are tested at once without a branch, which compiles to vector instructions.
#[inline]
fn position(bytes: &[u8], test: impl Fn(u8) -> bool) -> Option<usize> {
    const LINE: usize = 64;
    let (lines, tail) = bytes.as_chunks::<LINE>();
    for (number, line) in lines.iter().enumerate() {
        let any = line.iter().fold(0_u8, |any, byte| any | u8::from(test(*byte)));
        if any != 0 {
            return line.iter().position(|byte| test(*byte)).map(|offset| number * LINE + offset);
        }
    }
    tail.iter().position(|byte| test(*byte)).map(|offset| lines.len() * LINE + offset)
}

fn strip_left(classes: &ClassTable<'_>, text: &[u8], floor: usize, start: usize) -> usize {
    let mut at = start;
    while at > floor {
        let mut before = at - 1;
        while before > floor && text.get(before).is_some_and(|byte| byte & 0xc0 == 0x80) {
            before -= 1;
        }
        if !classes.at(text, before).is_some_and(|(class, _)| WHITE.has(class)) {
            break;
        }
        at = before;
    }
    at
}

fn strip_right(classes: &ClassTable<'_>, text: &[u8], end: usize) -> usize {
    let mut at = end;
    while let Some((class, length)) = classes.at(text, at) {
        if !WHITE.has(class) {
            break;
        }
        at += length;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::table::build_classes;

    fn token(text: &str, id: u32, strip_left: bool, strip_right: bool) -> AddedToken {
        AddedToken { text: text.to_owned(), id: TokenId(id), strip_left, strip_right }
    }

    fn found(tokens: &[AddedToken], text: &str) -> Vec<(usize, usize, u32)> {
        let mut values = vec![0_u8; 0x3001];
        values[0x20] = Class::Space as u8;
        values[0x0a] = Class::Newline as u8;
        values[0x3000] = Class::Space as u8;
        let (index, blocks) = build_classes(&values);
        let section = build_added(tokens).unwrap();
        let set = AddedSet::new(&section);
        let mut at = 0;
        let mut all = Vec::new();
        while let Some(hit) = set.next(&section, &ClassTable::new(&index, &blocks), text.as_bytes(), at) {
            all.push((hit.start, hit.end, hit.id.0));
            at = hit.end;
        }
        all
    }

    #[test]
    fn leftmost_and_longest() {
        let tokens = [token("<a>", 1, false, false), token("<a><b>", 2, false, false), token("/x", 3, false, false)];
        let text = format!("{}<a><b><a> </x><a", "-".repeat(200));
        assert_eq!(found(&tokens, &text), [(200, 206, 2), (206, 209, 1), (211, 213, 3)]);
    }

    #[test]
    fn strips_white_space_on_its_side_up_to_the_last_match() {
        let tokens = [token("<l>", 1, true, false), token("<r>", 2, false, true)];
        assert_eq!(found(&tokens, "a \u{3000}\n<l> b"), [(1, 9, 1)]);
        assert_eq!(found(&tokens, "a <r> \u{3000} <l>"), [(2, 10, 2), (10, 13, 1)]);
    }
}
