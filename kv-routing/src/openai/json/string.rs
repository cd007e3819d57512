//! Strings: found eight bytes at a time, borrowed when they have no escapes.

use std::borrow::Cow;

use super::{Cursor, JsonError, JsonProblem};

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

/// High bits of the bytes of `word` that end a plain stretch: `"`, `\` and control characters. The lowest one set is
/// exact; those above it need not be, since a borrow may have run through them.
#[inline]
fn special_bytes(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero(quote) | zero(backslash) | control) & TOPS
}

/// Length of the stretch at the start of `bytes` without `"`, `\` and control characters.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + tail.iter().position(special).unwrap_or(tail.len())
}

impl<'a> Cursor<'a> {
    /// Reads a string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"')?;
        let start = self.at;
        self.at += plain_len(self.rest());
        let plain = self.text.get(start..self.at).unwrap_or_default();
        match self.byte() {
            Some(b'"') => {
                self.at += 1;
                Ok(Cow::Borrowed(plain))
            }
            Some(b'\\') => self.escaped(plain).map(Cow::Owned),
            Some(_) => self.fail(JsonProblem::Control),
            None => self.fail(JsonProblem::End),
        }
    }

    /// Reads the rest of a string that has escapes; `plain` is what was before the first one.
    fn escaped(&mut self, plain: &str) -> Result<String, JsonError> {
        let mut out = String::with_capacity(plain.len() * 2 + 16);
        out.push_str(plain);
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return self.fail(JsonProblem::Control),
                None => return self.fail(JsonProblem::End),
            }
            let start = self.at;
            self.at += plain_len(self.rest());
            out.push_str(self.text.get(start..self.at).unwrap_or_default());
        }
    }

    /// The character of the escape behind a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(byte) = self.byte() else { return self.fail(JsonProblem::End) };
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return self.fail(JsonProblem::Escape),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let code = match first {
            0xd800..0xdc00 if self.rest().starts_with(b"\\u") => {
                self.at += 2;
                let second = self.hex4()?;
                if !(0xdc00..0xe000).contains(&second) {
                    return self.fail(JsonProblem::Surrogate);
                }
                0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            code => code,
        };
        char::from_u32(code).map_or_else(|| self.fail(JsonProblem::Surrogate), Ok)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let Some(digits) = self.rest().first_chunk::<4>() else { return self.fail(JsonProblem::Escape) };
        let mut code = 0;
        for digit in digits {
            let Some(value) = char::from(*digit).to_digit(16) else { return self.fail(JsonProblem::Escape) };
            code = code * 16 + value;
        }
        self.at += 4;
        Ok(code)
    }

    /// Passes over a string. Its escapes are checked, halves of surrogate pairs are let through.
    pub(super) fn skip_string(&mut self) -> Result<(), JsonError> {
        self.expect(b'"')?;
        loop {
            self.at += plain_len(self.rest());
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.byte() {
                        Some(b'u') => {
                            self.at += 1;
                            self.hex4()?;
                        }
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(_) => return self.fail(JsonProblem::Escape),
                        None => return self.fail(JsonProblem::End),
                    }
                }
                Some(_) => return self.fail(JsonProblem::Control),
                None => return self.fail(JsonProblem::End),
            }
        }
    }
}
