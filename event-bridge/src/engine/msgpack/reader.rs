//! The reader.

use super::{Fault, MsgpackError};

/// One msgpack value, or the head of a collection whose elements follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// nil
    Nil,
    /// true or false
    Bool(bool),
    /// A non-negative integer of any encoding.
    Unsigned(u64),
    /// A negative integer of any encoding.
    Negative(i64),
    /// A float of either width.
    Float(f64),
    /// A string; its encoding is not checked.
    Text(&'a [u8]),
    /// Binary.
    Binary(&'a [u8]),
    /// Head of an array: number of elements.
    Array(u32),
    /// Head of a map: number of pairs.
    Map(u32),
    /// An extension value.
    Extension(&'a [u8]),
}

impl Token<'_> {
    /// Its type, for error texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Unsigned(_) => "integer",
            Self::Negative(_) => "negative integer",
            Self::Float(_) => "float",
            Self::Text(_) => "string",
            Self::Binary(_) => "binary",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Extension(_) => "extension",
        }
    }
}

/// Reads values off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// Offset of the next value.
    pub fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// An error at the next value.
    pub fn error(&self, fault: Fault) -> MsgpackError {
        MsgpackError { at: self.offset(), fault }
    }

    /// Reads the next value, of a collection only the head.
    ///
    /// # Errors
    /// The payload ends inside the value, the value claims more than follows, or its first byte is reserved.
    /// The reader then stands at the beginning of that value.
    #[inline]
    pub fn token(&mut self) -> Result<Token<'a>, MsgpackError> {
        let start = self.rest;
        let token = self.token_or_fault();
        token.map_err(|fault| {
            self.rest = start;
            self.error(fault)
        })
    }

    #[inline]
    fn token_or_fault(&mut self) -> Result<Token<'a>, Fault> {
        let first = self.byte()?;
        Ok(match first {
            0x00..=0x7f => Token::Unsigned(u64::from(first)),
            0x80..=0x8f => self.map(u32::from(first & 0x0f))?,
            0x90..=0x9f => self.array(u32::from(first & 0x0f))?,
            0xa0..=0xbf => Token::Text(self.take(u32::from(first & 0x1f))?),
            0xc0 => Token::Nil,
            0xc1 => return Err(Fault::Reserved),
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4 => self.binary8()?,
            0xc5 => self.binary16()?,
            0xc6 => self.binary32()?,
            0xc7..=0xc9 | 0xd4..=0xd8 => self.extension(first)?,
            0xca => Token::Float(f64::from(f32::from_be_bytes(self.bytes()?))),
            0xcb => Token::Float(f64::from_be_bytes(self.bytes()?)),
            0xcc => Token::Unsigned(u64::from(self.byte()?)),
            0xcd => Token::Unsigned(u64::from(u16::from_be_bytes(self.bytes()?))),
            0xce => Token::Unsigned(u64::from(u32::from_be_bytes(self.bytes()?))),
            0xcf => Token::Unsigned(u64::from_be_bytes(self.bytes()?)),
            0xd0 => signed(i64::from(i8::from_be_bytes(self.bytes()?))),
            0xd1 => signed(i64::from(i16::from_be_bytes(self.bytes()?))),
            0xd2 => signed(i64::from(i32::from_be_bytes(self.bytes()?))),
            0xd3 => signed(i64::from_be_bytes(self.bytes()?)),
            0xd9 => {
                let length = u32::from(self.byte()?);
                Token::Text(self.take(length)?)
            }
            0xda => {
                let length = u32::from(u16::from_be_bytes(self.bytes()?));
                Token::Text(self.take(length)?)
            }
            0xdb => {
                let length = u32::from_be_bytes(self.bytes()?);
                Token::Text(self.take(length)?)
            }
            0xdc => {
                let length = u32::from(u16::from_be_bytes(self.bytes()?));
                self.array(length)?
            }
            0xdd => {
                let length = u32::from_be_bytes(self.bytes()?);
                self.array(length)?
            }
            0xde => {
                let length = u32::from(u16::from_be_bytes(self.bytes()?));
                self.map(length)?
            }
            0xdf => {
                let length = u32::from_be_bytes(self.bytes()?);
                self.map(length)?
            }
            0xe0..=0xff => Token::Negative(i64::from(first.cast_signed())),
        })
    }

    /// Reads and forgets one whole value, however deeply nested, without recursion.
    ///
    /// # Errors
    /// The value is malformed; the reader then stands at the malformed part.
    pub fn skip(&mut self) -> Result<(), MsgpackError> {
        let mut values = 1_u64;
        while values > 0 {
            values -= 1;
            values += match self.token()? {
                Token::Array(length) => u64::from(length),
                Token::Map(length) => 2 * u64::from(length),
                _ => 0,
            };
        }
        Ok(())
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    fn take(&mut self, length: u32) -> Result<&'a [u8], Fault> {
        let too_long = Fault::Length { length: u64::from(length), rest: self.rest.len() };
        let (head, rest) = self.rest.split_at_checked(length as usize).ok_or(too_long)?;
        self.rest = rest;
        Ok(head)
    }

    fn binary8(&mut self) -> Result<Token<'a>, Fault> {
        let length = u32::from(self.byte()?);
        Ok(Token::Binary(self.take(length)?))
    }

    fn binary16(&mut self) -> Result<Token<'a>, Fault> {
        let length = u32::from(u16::from_be_bytes(self.bytes()?));
        Ok(Token::Binary(self.take(length)?))
    }

    fn binary32(&mut self) -> Result<Token<'a>, Fault> {
        let length = u32::from_be_bytes(self.bytes()?);
        Ok(Token::Binary(self.take(length)?))
    }

    fn extension(&mut self, first: u8) -> Result<Token<'a>, Fault> {
        let length = match first {
            0xc7 => u32::from(self.byte()?),
            0xc8 => u32::from(u16::from_be_bytes(self.bytes()?)),
            0xc9 => u32::from_be_bytes(self.bytes()?),
            fixed => 1 << (fixed - 0xd4),
        };
        self.byte()?; // the extension's type number
        Ok(Token::Extension(self.take(length)?))
    }

    /// Every element takes at least one byte, so a length beyond the rest is a lie.
    fn array(&self, length: u32) -> Result<Token<'a>, Fault> {
        if length as usize > self.rest.len() {
            return Err(Fault::Length { length: u64::from(length), rest: self.rest.len() });
        }
        Ok(Token::Array(length))
    }

    fn map(&self, length: u32) -> Result<Token<'a>, Fault> {
        if u64::from(length) * 2 > self.rest.len() as u64 {
            return Err(Fault::Length { length: u64::from(length), rest: self.rest.len() });
        }
        Ok(Token::Map(length))
    }
}

fn signed(number: i64) -> Token<'static> {
    match u64::try_from(number) {
        Ok(number) => Token::Unsigned(number),
        Err(_) => Token::Negative(number),
    }
}
