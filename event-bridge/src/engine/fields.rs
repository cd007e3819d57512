//! Fields of map and array events, by type. `field` names the field in errors.

use std::borrow::Cow;

use kv_routing::block::TokenId;

use super::event::{EngineHash, Tokens};
use super::msgpack::{Fault, MsgpackError, Reader, Token};

/// Most block hashes in one event.
pub(super) const MAX_HASHES: u64 = 1 << 20;
/// Most token ids in one event.
pub(super) const MAX_TOKENS: u64 = 1 << 24;

pub(super) fn wrong(reader: &Reader<'_>, field: &'static str, wanted: &'static str, found: Token<'_>) -> MsgpackError {
    reader.error(Fault::Type { field, wanted, found: found.name() })
}

/// A string or nil.
pub(super) fn text<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Option<Cow<'a, str>>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Nil => Ok(None),
        Token::Text(bytes) => utf8(&before, field, bytes).map(|text| Some(Cow::Borrowed(text))),
        other => Err(wrong(&before, field, "string or nil", other)),
    }
}

pub(super) fn utf8<'a>(reader: &Reader<'_>, field: &'static str, bytes: &'a [u8]) -> Result<&'a str, MsgpackError> {
    std::str::from_utf8(bytes).map_err(|_| reader.error(Fault::Utf8 { field }))
}

/// An integer of at most 32 bits, or nil.
pub(super) fn small(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<u32>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Nil => Ok(None),
        Token::Unsigned(number) => match u32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(before.error(Fault::Range { field, value: i128::from(number) })),
        },
        Token::Negative(number) => Err(before.error(Fault::Range { field, value: i128::from(number) })),
        other => Err(wrong(&before, field, "integer or nil", other)),
    }
}

/// An integer of at most 64 bits with sign, or nil.
pub(super) fn number(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<i64>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Nil => Ok(None),
        Token::Unsigned(number) => match i64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(before.error(Fault::Range { field, value: i128::from(number) })),
        },
        Token::Negative(number) => Ok(Some(number)),
        other => Err(wrong(&before, field, "integer or nil", other)),
    }
}

/// Length of an array, or `None` for nil.
pub(super) fn array(reader: &mut Reader<'_>, field: &'static str, most: u64) -> Result<Option<u32>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Nil => Ok(None),
        Token::Array(length) if u64::from(length) > most => {
            Err(before.error(Fault::TooMany { field, length: u64::from(length), most }))
        }
        Token::Array(length) => Ok(Some(length)),
        other => Err(wrong(&before, field, "array or nil", other)),
    }
}

/// A block hash, or `None` for nil.
pub(super) fn hash(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<EngineHash>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Nil => Ok(None),
        Token::Unsigned(number) => Ok(Some(EngineHash(number))),
        Token::Negative(number) => Ok(Some(EngineHash(number.cast_unsigned()))),
        Token::Binary(bytes) => match bytes.last_chunk::<8>() {
            Some(last) => Ok(Some(EngineHash(u64::from_be_bytes(*last)))),
            None => Err(before.error(Fault::Nonsense { field, what: "binary hash shorter than 8 bytes" })),
        },
        other => Err(wrong(&before, field, "integer or binary", other)),
    }
}

/// A list of block hashes; nil is an empty one.
pub(super) fn hashes(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<EngineHash>, MsgpackError> {
    let Some(length) = array(reader, field, MAX_HASHES)? else {
        return Ok(Vec::new());
    };
    let mut list = Vec::with_capacity(length as usize);
    for _ in 0..length {
        let before = *reader;
        match hash(reader, field)? {
            Some(hash) => list.push(hash),
            None => return Err(wrong(&before, field, "integer or binary", Token::Nil)),
        }
    }
    Ok(list)
}

/// Token ids: plain, in pairs, or with something else among them.
pub(super) fn tokens(reader: &mut Reader<'_>, field: &'static str) -> Result<Tokens, MsgpackError> {
    let Some(length) = array(reader, field, MAX_TOKENS)? else {
        return Ok(Tokens::default());
    };
    let mut ahead = *reader;
    if length > 0 && matches!(ahead.token()?, Token::Array(_)) {
        return pairs(reader, field, length);
    }
    let mut ids = Vec::with_capacity(length as usize);
    for position in 0..length {
        match reader.token()? {
            Token::Unsigned(id) if id <= u64::from(u32::MAX) => ids.push(TokenId(id as u32)),
            other => return unindexable(reader, other, length, length - position - 1),
        }
    }
    Ok(Tokens::Plain(ids))
}

/// `[[a, b], [b, c], ...]`
fn pairs(reader: &mut Reader<'_>, field: &'static str, length: u32) -> Result<Tokens, MsgpackError> {
    let mut first = Vec::with_capacity(length as usize);
    let mut next = None;
    for _ in 0..length {
        let before = *reader;
        let [left, right] = pair(reader, field)?;
        if next.is_some_and(|next| next != left) {
            return Err(before.error(Fault::Nonsense { field, what: "a pair does not begin where the last one ended" }));
        }
        first.push(left);
        next = Some(right);
    }
    match next {
        Some(next) => Ok(Tokens::Pairs { first, next }),
        None => Ok(Tokens::default()),
    }
}

fn pair(reader: &mut Reader<'_>, field: &'static str) -> Result<[TokenId; 2], MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Array(2) => {}
        other => return Err(wrong(&before, field, "pair of token ids", other)),
    }
    let mut pair = [TokenId(0); 2];
    for id in &mut pair {
        let before = *reader;
        match reader.token()? {
            Token::Unsigned(number) if number <= u64::from(u32::MAX) => *id = TokenId(number as u32),
            other => return Err(wrong(&before, field, "token id", other)),
        }
    }
    Ok(pair)
}

/// The rest of a token list one element of which, `odd`, is no id; `left` elements follow its head.
fn unindexable(reader: &mut Reader<'_>, odd: Token<'_>, positions: u32, left: u32) -> Result<Tokens, MsgpackError> {
    let inner = match odd {
        Token::Array(length) => u64::from(length),
        Token::Map(length) => 2 * u64::from(length),
        _ => 0,
    };
    for _ in 0..inner + u64::from(left) {
        reader.skip()?;
    }
    Ok(Tokens::Unindexable { positions })
}
