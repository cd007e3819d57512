//! `BlockStored` in its map and array layouts.

use super::event::Stored;
use super::extra_keys::{extra_keys, mm_keys};
use super::fields::{hash, hashes, number, small, text, tokens};
use super::msgpack::{Fault, MsgpackError, Reader, Token};
use super::tagged::{Fields, Key};

/// Reads the fields after the tag.
pub(super) fn read<'a>(reader: &mut Reader<'a>, fields: Fields) -> Result<Stored<'a>, MsgpackError> {
    let start = *reader;
    let mut stored = Stored::default();
    let mut has_hashes = false;
    fields.each(reader, |reader, key| match key {
        Key::Name(name) => named(&mut stored, &mut has_hashes, reader, name),
        Key::Position(position) => positional(&mut stored, &mut has_hashes, reader, position),
    })?;
    stored.may_repeat = matches!(fields, Fields::Map(_)) && stored.parent.is_none();
    if has_hashes { Ok(stored) } else { Err(start.error(Fault::Missing { field: "block_hashes" })) }
}

fn named<'a>(
    stored: &mut Stored<'a>,
    has_hashes: &mut bool,
    reader: &mut Reader<'a>,
    name: &[u8],
) -> Result<(), MsgpackError> {
    match name {
        b"block_hashes" => {
            stored.hashes = hashes(reader, "block_hashes")?;
            *has_hashes = true;
        }
        b"parent_block_hash" => stored.parent = hash(reader, "parent_block_hash")?,
        b"token_ids" => stored.tokens = tokens(reader, "token_ids")?,
        b"block_size" => stored.block_size = small(reader, "block_size")?,
        b"lora_id" => stored.lora_id = number(reader, "lora_id")?,
        b"lora_name" => stored.lora_name = text(reader, "lora_name")?,
        b"medium" => stored.medium = text(reader, "medium")?,
        b"cache_salt" => stored.cache_salt = text(reader, "cache_salt")?,
        b"extra_keys" => stored.extra_keys = extra_keys(reader, "extra_keys")?,
        b"mm_keys" => stored.extra_keys = mm_keys(reader, "mm_keys")?,
        b"group_idx" => stored.group = small(reader, "group_idx")?,
        b"kv_cache_spec_kind" => stored.kind = text(reader, "kv_cache_spec_kind")?,
        b"kv_cache_spec_sliding_window" => stored.sliding_window = small(reader, "kv_cache_spec_sliding_window")?,
        b"locality" => stored.locality = text(reader, "locality")?,
        b"ownership" => stored.ownership = text(reader, "ownership")?,
        b"session_id" => stored.session_id = text(reader, "session_id")?,
        b"lookahead_token_ids" => stored.lookahead = lookahead(reader)?,
        _ => reader.skip()?,
    }
    Ok(())
}

/// Positions count from the tag, which is 0.
fn positional<'a>(
    stored: &mut Stored<'a>,
    has_hashes: &mut bool,
    reader: &mut Reader<'a>,
    position: u32,
) -> Result<(), MsgpackError> {
    let name: &[u8] = match position {
        1 => b"block_hashes",
        2 => b"parent_block_hash",
        3 => b"token_ids",
        4 => b"block_size",
        5 => b"lora_id",
        6 => b"medium",
        7 => return adapter_or_salt(stored, reader),
        8 => b"extra_keys",
        9 => b"group_idx",
        10 => b"kv_cache_spec_kind",
        11 => b"kv_cache_spec_sliding_window",
        _ => return reader.skip(),
    };
    named(stored, has_hashes, reader, name)
}

/// Index 7: the adapter's name in vLLM, a map with the salt in SGLang 0.5.18 and 0.5.19.
fn adapter_or_salt<'a>(stored: &mut Stored<'a>, reader: &mut Reader<'a>) -> Result<(), MsgpackError> {
    let before = *reader;
    let Token::Map(pairs) = reader.token()? else {
        *reader = before;
        stored.lora_name = text(reader, "lora_name")?;
        return Ok(());
    };
    Fields::Map(pairs).each(reader, |reader, key| match key {
        Key::Name(b"cache_salt") => {
            stored.cache_salt = text(reader, "cache_salt")?;
            Ok(())
        }
        _ => reader.skip(),
    })
}

fn lookahead(reader: &mut Reader<'_>) -> Result<Vec<Vec<u32>>, MsgpackError> {
    let mut all = Vec::new();
    let blocks = super::fields::array(reader, "lookahead_token_ids", super::fields::MAX_HASHES)?;
    for _ in 0..blocks.unwrap_or(0) {
        let length = super::fields::array(reader, "lookahead_token_ids", super::fields::MAX_TOKENS)?.unwrap_or(0);
        let mut ids = Vec::with_capacity(length as usize);
        for _ in 0..length {
            ids.extend(small(reader, "lookahead_token_ids")?);
        }
        all.push(ids);
    }
    Ok(all)
}
