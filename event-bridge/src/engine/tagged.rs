//! The two layouts of a tagged structure: an array whose first element is the tag, and a map with the key `type`.

use super::fields::{utf8, wrong};
use super::msgpack::{Fault, MsgpackError, Reader, Token};

/// Name of a field, by layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// Key of a map.
    Name(&'a [u8]),
    /// Index in an array, the tag's being 0.
    Position(u32),
}

/// The fields of one structure whose head has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Number of pairs that follow.
    Map(u32),
    /// Number of elements, the tag's included; the tag has been read.
    Array(u32),
}

impl Fields {
    /// Calls `take` with the reader at each field's value; `take` must read exactly that value.
    pub(super) fn each<'a>(
        self,
        reader: &mut Reader<'a>,
        mut take: impl FnMut(&mut Reader<'a>, Key<'a>) -> Result<(), MsgpackError>,
    ) -> Result<(), MsgpackError> {
        match self {
            Self::Map(pairs) => {
                for _ in 0..pairs {
                    let before = *reader;
                    match reader.token()? {
                        Token::Text(name) => take(reader, Key::Name(name))?,
                        Token::Array(_) | Token::Map(_) => {
                            return Err(before.error(Fault::Nonsense { field: "key", what: "a collection as a key" }));
                        }
                        _ => reader.skip()?,
                    }
                }
            }
            Self::Array(length) => {
                for position in 1..length {
                    take(reader, Key::Position(position))?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the head of a tagged structure. Afterwards the reader stands at its fields.
pub(super) fn tag<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, Fields), MsgpackError> {
    let start = *reader;
    match reader.token()? {
        Token::Array(0) => Err(start.error(Fault::Missing { field: "tag" })),
        Token::Array(length) => {
            let before = *reader;
            match reader.token()? {
                Token::Text(bytes) => Ok((utf8(&before, "tag", bytes)?, Fields::Array(length))),
                other => Err(wrong(&before, "tag", "string", other)),
            }
        }
        Token::Map(pairs) => {
            let mut ahead = *reader;
            Ok((find_type(&mut ahead, &start, pairs)?, Fields::Map(pairs)))
        }
        other => Err(wrong(&start, "event", "array or map", other)),
    }
}

/// The value of the key `type`, which is nearly always the first.
fn find_type<'a>(reader: &mut Reader<'a>, start: &Reader<'a>, pairs: u32) -> Result<&'a str, MsgpackError> {
    for _ in 0..pairs {
        let key = reader.token()?;
        let before = *reader;
        match key {
            Token::Text(b"type") => match reader.token()? {
                Token::Text(bytes) => return utf8(&before, "type", bytes),
                other => return Err(wrong(&before, "type", "string", other)),
            },
            Token::Array(_) | Token::Map(_) => {
                return Err(before.error(Fault::Nonsense { field: "key", what: "a collection as a key" }));
            }
            _ => reader.skip()?,
        }
    }
    Err(start.error(Fault::Missing { field: "type" }))
}
