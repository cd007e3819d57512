//! Strings: searched many bytes at a time, borrowed when they have no escapes.

use std::borrow::Cow;

use minijinja::Value;

use super::stretch::{WIDE, first_special, plain_len};
use super::{Cursor, JsonError, JsonProblem};

/// A string that was read.
enum Read<'a> {
    /// As it is in the body.
    Plain(&'a str),
    /// Without its escapes, in the cursor.
    Unescaped,
}

impl<'a> Cursor<'a> {
    /// Reads a string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        Ok(match self.read_string()? {
            Read::Plain(plain) => Cow::Borrowed(plain),
            Read::Unescaped => Cow::Owned(std::mem::take(&mut self.unescaped)),
        })
    }

    /// Reads a string that a template may see.
    pub(crate) fn string_value(&mut self) -> Result<Value, JsonError> {
        Ok(match self.read_string()? {
            Read::Plain(plain) => Value::from(plain),
            Read::Unescaped => Value::from(self.unescaped.as_str()),
        })
    }

    fn read_string(&mut self) -> Result<Read<'a>, JsonError> {
        self.expect(b'"')?;
        let start = self.at;
        self.at += plain_len(self.rest());
        let plain = self.text.get(start..self.at).unwrap_or_default();
        match self.byte() {
            Some(b'"') => {
                self.at += 1;
                Ok(Read::Plain(plain))
            }
            Some(b'\\') => self.unescape(plain),
            Some(_) => self.fail(JsonProblem::Control),
            None => self.fail(JsonProblem::End),
        }
    }

    /// Reads the rest of a string that has escapes; `plain` is what was before the first one.
    fn unescape(&mut self, plain: &str) -> Result<Read<'a>, JsonError> {
        let mut out = std::mem::take(&mut self.unescaped);
        out.clear();
        out.push_str(plain);
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    self.unescaped = out;
                    return Ok(Read::Unescaped);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return self.fail(JsonProblem::Control),
                None => return self.fail(JsonProblem::End),
            }
            self.copy_plain(&mut out);
        }
    }

    /// Takes the text up to the next special byte. Stretches are short in code, which has an escape in every line, so a vector of
    /// bytes is copied and what was too much cut off again: a copy of known length needs no call.
    #[inline]
    fn copy_plain(&mut self, out: &mut String) {
        while let Some(chunk) = self.rest().first_chunk::<WIDE>()
            && let Some(text) = self.text.get(self.at..self.at + WIDE)
        {
            let plain = first_special(chunk);
            out.push_str(text);
            self.at += plain;
            if plain < WIDE {
                out.truncate(out.len() - (WIDE - plain));
                return;
            }
        }
        // At the end of the body, or a character lies across the end of the chunk.
        let start = self.at;
        self.at += plain_len(self.rest());
        out.push_str(self.text.get(start..self.at).unwrap_or_default());
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
