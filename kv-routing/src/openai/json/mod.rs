//! A JSON reader that goes over the body once and builds only what is asked for.
//!
//! It accepts what Python's `json.loads` accepts, since that is what the engines use: `NaN` and `Infinity` are
//! numbers, integers have any size, and of duplicate keys the last wins. Strings without escapes are borrowed from
//! the body. Everything is bounded: nesting by [`MAX_DEPTH`], the number of kept values by [`MAX_VALUES`].

mod build;
mod members;
mod number;
mod skip;
mod stretch;
mod string;
mod unescaped;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use thiserror::Error;

pub use build::to_value;
pub(crate) use members::{Member as ObjectMember, elements, members};
pub(crate) use number::Number;
use unescaped::Unescaped;

/// Deepest nesting of arrays and objects that is read. Python's own bound is about 1000 and pydantic's 255.
pub const MAX_DEPTH: u16 = 128;

/// Most values that one body may make us keep, so that `[[],[],...]` cannot exhaust a VM. About 64 bytes each.
pub const MAX_VALUES: u32 = 262_144;

/// Why a text is not usable JSON, and where.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{problem} at byte {at}")]
pub struct JsonError {
    /// Byte offset in the body.
    pub at: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What can be wrong with JSON.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JsonProblem {
    /// The body ends too early.
    #[error("unexpected end")]
    End,
    /// Another byte than the grammar allows.
    #[error("unexpected byte 0x{0:02x}")]
    Byte(u8),
    /// Something after the value.
    #[error("trailing data")]
    Trailing,
    /// The body is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A raw control character within a string.
    #[error("control character in a string")]
    Control,
    /// A backslash with something unknown behind it.
    #[error("invalid escape")]
    Escape,
    /// Half a surrogate pair; no tokenizer takes it.
    #[error("lone surrogate in a string")]
    Surrogate,
    /// Nested over [`MAX_DEPTH`].
    #[error("nested too deeply")]
    Depth,
    /// More than [`MAX_VALUES`] values.
    #[error("too many values")]
    Values,
    /// A number outside of what a template can print exactly.
    #[error("number out of range")]
    Number,
}

/// The kind of the value ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// What is done with a member of an object.
pub(crate) type Member<'f, 'a, E> = &'f mut dyn FnMut(&mut Cursor<'a>, Cow<'a, str>) -> Result<(), E>;

/// What is done with an element of an array.
pub(crate) type Element<'f, 'a, E> = &'f mut dyn FnMut(&mut Cursor<'a>) -> Result<(), E>;

/// A place in the body.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u16,
    kept: u32,
    /// The last string that had escapes, without them; kept for its memory.
    unescaped: Unescaped,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `body`. A byte order mark is skipped, as Python does.
    pub(crate) fn new(body: &'a [u8]) -> Result<Self, JsonError> {
        let text = simdutf8::compat::from_utf8(body)
            .map_err(|error| JsonError { at: error.valid_up_to(), problem: JsonProblem::Utf8 })?;
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Ok(Self { text, at, depth: 0, kept: 0, unescaped: Unescaped::default() })
    }

    pub(crate) fn fail<T>(&self, problem: JsonProblem) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, problem })
    }

    /// The unexpected byte here, or the end.
    fn unexpected<T>(&self) -> Result<T, JsonError> {
        match self.byte() {
            Some(byte) => self.fail(JsonProblem::Byte(byte)),
            None => self.fail(JsonProblem::End),
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The bytes from here on.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    /// Takes `byte` when it is next, white space aside.
    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let taken = self.byte() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.take(byte) { Ok(()) } else { self.unexpected() }
    }

    fn literal(&mut self, word: &str) -> Result<(), JsonError> {
        if self.rest().starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            self.unexpected()
        }
    }

    /// The kind of the value ahead, judged by its first byte.
    pub(crate) fn peek(&mut self) -> Result<Kind, JsonError> {
        self.skip_space();
        Ok(match self.byte() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Kind::Number,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => return self.unexpected(),
        })
    }

    pub(crate) fn null(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        self.literal("null")
    }

    pub(crate) fn bool(&mut self) -> Result<bool, JsonError> {
        self.skip_space();
        if self.byte() == Some(b't') {
            self.literal("true").map(|()| true)
        } else {
            self.literal("false").map(|()| false)
        }
    }

    fn deeper(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.fail(JsonProblem::Depth) } else { Ok(()) }
    }

    /// Counts one kept value against the bound.
    pub(crate) fn keep(&mut self) -> Result<(), JsonError> {
        self.kept += 1;
        if self.kept > MAX_VALUES { self.fail(JsonProblem::Values) } else { Ok(()) }
    }

    /// Reads an object; `member` gets every key and must read its value. The closure is not generic, so that this loop
    /// is in the filter once.
    pub(crate) fn object<E: From<JsonError>>(&mut self, member: Member<'_, 'a, E>) -> Result<(), E> {
        self.expect(b'{')?;
        self.deeper()?;
        if !self.take(b'}') {
            loop {
                self.skip_space();
                let key = self.string()?;
                self.expect(b':')?;
                member(self, key)?;
                if !self.take(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array; `element` must read every value.
    pub(crate) fn array<E: From<JsonError>>(&mut self, element: Element<'_, 'a, E>) -> Result<(), E> {
        self.expect(b'[')?;
        self.deeper()?;
        if !self.take(b']') {
            loop {
                element(self)?;
                if !self.take(b',') {
                    self.expect(b']')?;
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        if self.byte().is_some() { self.fail(JsonProblem::Trailing) } else { Ok(()) }
    }
}
