//! `BlockRemoved` in its map and array layouts.

use super::event::Removed;
use super::fields::{hashes, small, text};
use super::msgpack::{Fault, MsgpackError, Reader};
use super::tagged::{Fields, Key};

/// Reads the fields after the tag.
pub(super) fn read<'a>(reader: &mut Reader<'a>, fields: Fields) -> Result<Removed<'a>, MsgpackError> {
    let start = *reader;
    let mut removed = Removed::default();
    let mut has_hashes = false;
    fields.each(reader, |reader, key| {
        match key {
            Key::Name(b"block_hashes") | Key::Position(1) => {
                removed.hashes = hashes(reader, "block_hashes")?;
                has_hashes = true;
            }
            Key::Name(b"medium") | Key::Position(2) => removed.medium = text(reader, "medium")?,
            Key::Name(b"group_idx") | Key::Position(3) => removed.group = small(reader, "group_idx")?,
            Key::Name(b"locality") => removed.locality = text(reader, "locality")?,
            Key::Name(b"ownership") => removed.ownership = text(reader, "ownership")?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if has_hashes { Ok(removed) } else { Err(start.error(Fault::Missing { field: "block_hashes" })) }
}
