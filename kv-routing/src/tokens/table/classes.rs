//! Unicode classes the pre-tokenizers tell apart, and the two facts about a character that others need at the same moment.
//!
//! One byte per code point: the [`Class`] in the low four bits, then [`HAN`] and [`NFC_UNSAFE`].

use super::TwoStage;
use super::build_two_stage;

/// The character's script is Han.
pub const HAN: u8 = 1 << 4;
/// Composing may change or move the character: text without any such character is composed already.
pub const NFC_UNSAFE: u8 = 1 << 5;

/// General categories, grouped as the patterns of the known tokenizers need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// None of the below.
    Other = 0,
    /// `Lu`, `Lt`
    Upper = 1,
    /// `Ll`
    Lower = 2,
    /// `Lm`, `Lo`
    Letter = 3,
    /// `M`
    Mark = 4,
    /// `N`
    Number = 5,
    /// `P`
    Punctuation = 6,
    /// `S`
    Symbol = 7,
    /// `White_Space` without the next.
    Space = 8,
    /// Line feed and carriage return.
    Newline = 9,
}

/// A set of classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassSet(u16);

impl ClassSet {
    /// The set of the given classes.
    pub const fn of(classes: &[Class]) -> Self {
        let mut bits = 0;
        let mut rest = classes;
        while let [class, tail @ ..] = rest {
            bits |= 1 << (*class as u8);
            rest = tail;
        }
        Self(bits)
    }

    /// All classes that are not in this set.
    pub const fn complement(self) -> Self {
        Self(!self.0)
    }

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the class of a table byte is in the set.
    #[inline]
    pub const fn has(self, value: u8) -> bool {
        (self.0 >> (value & 15)) & 1 != 0
    }
}

/// The table, in place.
#[derive(Clone, Copy, Debug)]
pub struct ClassTable<'a> {
    table: TwoStage<'a>,
    ascii: Option<&'a [u8; 128]>,
}

impl<'a> ClassTable<'a> {
    /// A view of the two sections.
    pub fn new(index: &'a [u8], blocks: &'a [u8]) -> Self {
        Self { table: TwoStage::new(index, blocks), ascii: blocks.first_chunk() }
    }

    /// The table byte of the character at `at` and the character's length in bytes; `None` at the end.
    #[inline]
    pub fn at(&self, text: &[u8], at: usize) -> Option<(u8, usize)> {
        let first = *text.get(at)?;
        if first < 0x80 {
            return Some((self.ascii.map_or(0, |ascii| ascii.get(usize::from(first)).copied().unwrap_or(0)), 1));
        }
        let (code_point, length) = decode(text, at, first);
        Some((self.table.get(code_point), length))
    }
}

/// The code point that starts at `at` with the byte `first` of at least 0x80, and its length. The text is UTF-8; anything else
/// gives some code point and a length of 1 to 4.
#[inline]
pub(crate) fn decode(text: &[u8], at: usize, first: u8) -> (u32, usize) {
    let low = |offset: usize| u32::from(text.get(at + offset).copied().unwrap_or(0)) & 0x3f;
    let first = u32::from(first);
    if first < 0xe0 {
        ((first & 0x1f) << 6 | low(1), 2)
    } else if first < 0xf0 {
        ((first & 0x0f) << 12 | low(1) << 6 | low(2), 3)
    } else {
        ((first & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4)
    }
}

/// Builds both sections from one byte per code point.
pub fn build_classes(values: &[u8]) -> (Vec<u8>, Vec<u8>) {
    build_two_stage(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_character() {
        let mut buffer = [0; 4];
        for character in (0x80..0x11_0000).filter_map(char::from_u32) {
            let text = character.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(decode(text, 0, text[0]), (character as u32, character.len_utf8()));
        }
    }

    #[test]
    fn sets() {
        const SET: ClassSet = ClassSet::of(&[Class::Upper, Class::Newline]);
        assert!(SET.has(Class::Upper as u8 | HAN) && SET.has(Class::Newline as u8) && !SET.has(Class::Space as u8));
        assert!(SET.complement().has(Class::Other as u8) && !SET.complement().has(Class::Upper as u8));
    }
}
