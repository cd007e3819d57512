//! What else than tokens enters a block's engine hash: vLLM's `extra_keys` and TensorRT-LLM's `mm_keys`.
//!
//! `extra_keys` is untagged: per block nil or `[adapter?, [image id, offset]*, salt?, digest?]`, and up to vLLM 0.17.1 the
//! image id was a bare string as well. What a bare string means is decided where adapter and position are known.

use std::borrow::Cow;

use super::event::ExtraKey;
use super::fields::{MAX_HASHES, array, number, text, utf8, wrong};
use super::msgpack::{Fault, MsgpackError, Reader, Token};

/// Most keys of one block.
const MAX_KEYS: u64 = 4096;
/// Most keys of one event. A key takes forty bytes of memory and may be one byte long; real events have one or two per image.
const MAX_EVENT_KEYS: u64 = 1 << 18;

/// Keys of each block; an empty list when no block has any.
pub(super) fn extra_keys<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<Vec<Vec<ExtraKey<'a>>>, MsgpackError> {
    per_block(reader, field, extra_key)
}

/// The same for `mm_keys`, whose items are maps.
pub(super) fn mm_keys<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<Vec<Vec<ExtraKey<'a>>>, MsgpackError> {
    per_block(reader, field, mm_key)
}

fn per_block<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    key: impl Fn(&mut Reader<'a>, &'static str) -> Result<ExtraKey<'a>, MsgpackError>,
) -> Result<Vec<Vec<ExtraKey<'a>>>, MsgpackError> {
    let Some(blocks) = array(reader, field, MAX_HASHES)? else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    let mut left = MAX_EVENT_KEYS;
    for block in 0..blocks {
        let Some(length) = array(reader, field, MAX_KEYS.min(left))? else {
            // Nearly every list is nils only, which must cost nothing.
            if !all.is_empty() {
                all.push(Vec::new());
            }
            continue;
        };
        left -= u64::from(length);
        if length > 0 && all.is_empty() {
            all.resize(block as usize, Vec::new());
        }
        let mut keys = Vec::with_capacity(length as usize);
        for _ in 0..length {
            keys.push(key(reader, field)?);
        }
        if !keys.is_empty() || !all.is_empty() {
            all.push(keys);
        }
    }
    Ok(all)
}

fn extra_key<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<ExtraKey<'a>, MsgpackError> {
    let before = *reader;
    match reader.token()? {
        Token::Text(bytes) => Ok(ExtraKey::Text(Cow::Borrowed(utf8(&before, field, bytes)?))),
        Token::Binary(bytes) => Ok(ExtraKey::Digest(bytes)),
        Token::Array(2) => {
            let id = text(reader, field)?;
            let offset = number(reader, field)?;
            match (id, offset) {
                (Some(id), Some(offset)) => Ok(ExtraKey::Item { id, offset }),
                _ => Err(before.error(Fault::Nonsense { field, what: "an item needs an identifier and an offset" })),
            }
        }
        _ => {
            *reader = before;
            reader.skip()?;
            Ok(ExtraKey::Other)
        }
    }
}

fn mm_key<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<ExtraKey<'a>, MsgpackError> {
    let before = *reader;
    let pairs = match reader.token()? {
        Token::Map(pairs) => pairs,
        other => return Err(wrong(&before, field, "map", other)),
    };
    let mut id = None;
    let mut offset = 0;
    for _ in 0..pairs {
        match reader.token()? {
            Token::Text(b"hash") => id = text(reader, field)?,
            Token::Text(b"start_offset") => offset = number(reader, field)?.unwrap_or(0),
            Token::Array(_) | Token::Map(_) => {
                return Err(before.error(Fault::Nonsense { field, what: "a collection as a key" }));
            }
            _ => reader.skip()?,
        }
    }
    match id {
        Some(id) => Ok(ExtraKey::Item { id, offset }),
        None => Err(before.error(Fault::Missing { field: "mm_keys.hash" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `blocks` lists of `keys` nils.
    fn nils(blocks: u16, keys: u16) -> Vec<u8> {
        let mut out = vec![0xdc];
        out.extend_from_slice(&blocks.to_be_bytes());
        for _ in 0..blocks {
            out.push(0xdc);
            out.extend_from_slice(&keys.to_be_bytes());
            out.extend(std::iter::repeat_n(0xc0, usize::from(keys)));
        }
        out
    }

    #[test]
    fn an_event_has_a_bounded_number_of_keys() {
        let read = |bytes: &[u8]| extra_keys(&mut Reader::new(bytes), "extra_keys").map(|keys| keys.len());
        assert_eq!(read(&nils(64, 4096)).unwrap(), 64);
        assert!(read(&nils(65, 4096)).unwrap_err().to_string().contains("extra_keys"));
        assert!(read(&nils(1, 4097)).is_err());
    }
}
