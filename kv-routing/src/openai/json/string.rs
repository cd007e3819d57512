//! Strings: searched many bytes at a time, borrowed when they have no escapes.

use std::borrow::Cow;

use minijinja::Value;

use super::stretch::plain_len;
use super::unescaped::{Unescaped, short_escape};
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
            Read::Unescaped => Cow::Owned(self.unescaped()?.to_owned()),
        })
    }

    /// Reads a string that a template may see.
    pub(crate) fn string_value(&mut self) -> Result<Value, JsonError> {
        Ok(match self.read_string()? {
            Read::Plain(plain) => Value::from(plain),
            Read::Unescaped => Value::from(self.unescaped()?),
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

    /// The last string that had escapes.
    fn unescaped(&self) -> Result<&str, JsonError> {
        // Cut from text and put together of characters, so it is text; to check that again costs next to nothing.
        simdutf8::compat::from_utf8(self.unescaped.text()).or_else(|_| self.fail(JsonProblem::Utf8))
    }

    /// Reads the rest of a string that has escapes; `plain` is what was before the first one.
    fn unescape(&mut self, plain: &str) -> Result<Read<'a>, JsonError> {
        let mut out = std::mem::take(&mut self.unescaped);
        out.clear();
        out.push(plain.as_bytes());
        let end = self.unescape_into(&mut out);
        self.unescaped = out;
        end.map(|()| Read::Unescaped)
    }

    fn unescape_into(&mut self, out: &mut Unescaped) -> Result<(), JsonError> {
        loop {
            self.at += out.take_stretches(self.rest());
            let plain = plain_len(self.rest());
            out.push(self.rest().get(..plain).unwrap_or_default());
            self.at += plain;
            let special = self.byte();
            if special.is_some_and(|byte| byte >= b' ') {
                self.at += 1;
            }
            match special {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {
                    let char = self.escape()?;
                    out.push(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(_) => return self.fail(JsonProblem::Control),
                None => return self.fail(JsonProblem::End),
            }
        }
    }

    /// The character of the escape behind a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(byte) = self.byte() else { return self.fail(JsonProblem::End) };
        self.at += 1;
        match (byte, short_escape(byte)) {
            (b'u', _) => self.unicode_escape(),
            (_, 0) => self.fail(JsonProblem::Escape),
            (_, char) => Ok(char::from(char)),
        }
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
                        Some(byte) if short_escape(byte) != 0 => self.at += 1,
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
