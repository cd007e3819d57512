//! The compiled tokenizer: one buffer of little-endian tables that are used where they lie.
//!
//! The byte layout is written down in this folder's parent, `README.md`. Everything read from the buffer goes
//! through the checked getters of `bytes`, so damaged or hostile bytes can give wrong tokens but never a panic.

pub(crate) mod bytes;
mod error;
mod meta;
mod template;
mod write;

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use bytes::{u32_at, u64_at};

pub use error::ImageError;
pub use meta::{Digits, Family, Meta, ModelFlags, Normalizer, Pattern, UnicodeVersion};
pub(crate) use template::decode_template;
pub use template::encode_template;
pub use write::ImageWriter;

/// First bytes of every compiled tokenizer.
pub const MAGIC: [u8; 8] = *b"KVROUTOK";
/// Layout version this build writes and reads.
pub const FORMAT: u32 = 1;
/// Bytes before the section directory.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of one directory entry.
pub(crate) const ENTRY_BYTES: usize = 16;
/// Sections start at multiples of this.
pub(crate) const ALIGN: usize = 64;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Section {
    /// [`Meta`]: model kind, pattern, normalizer, counts, framing ids.
    Meta = 1,
    /// Token id of every single byte.
    Bytes = 2,
    /// Hash table from piece to token id.
    Vocab = 3,
    /// Texts of the pieces too long for a slot of [`Section::Vocab`].
    VocabText = 4,
    /// Hash table from a pair of token ids to merge rank and merged id.
    Merges = 5,
    /// Merge of every pair of bytes.
    BytePairs = 6,
    /// Unicode classes: block number of every 128 code points.
    ClassIndex = 7,
    /// Unicode classes: the distinct blocks.
    ClassBlocks = 8,
    /// Canonical combining classes: block number of every 128 code points.
    CombiningIndex = 9,
    /// Canonical combining classes: the distinct blocks.
    CombiningBlocks = 10,
    /// Canonical decompositions.
    Decompositions = 11,
    /// Canonical compositions.
    Compositions = 12,
    /// Trie of the added tokens looked for in the raw text.
    AddedRaw = 13,
    /// Trie of the added tokens looked for after normalization.
    AddedNormalized = 14,
    /// Chat templates, special-token strings and how the engine renders.
    Template = 15,
    /// Pairs of characters that tokens hold.
    Joins = 16,
}

impl Section {
    const COUNT: usize = 17;
}

/// An opened compiled tokenizer.
pub struct Image {
    bytes: Vec<u8>,
    sections: [Range<usize>; Section::COUNT],
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("bytes", &self.bytes.len()).field("id", &self.id()).finish()
    }
}

impl Image {
    /// Checks header, directory and content hash, and keeps the buffer as it is.
    ///
    /// # Errors
    /// [`ImageError`] when the buffer is not a compiled tokenizer of this format, or is damaged.
    pub fn open(bytes: Vec<u8>) -> Result<Self, ImageError> {
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(ImageError::Magic);
        }
        let format = u32_at(&bytes, 8);
        if format != FORMAT {
            return Err(ImageError::Format { found: format, expected: FORMAT });
        }
        let total = u64_at(&bytes, 16);
        if total != bytes.len() as u64 {
            return Err(ImageError::Length { found: bytes.len() as u64, expected: total });
        }
        let count = u32_at(&bytes, 12) as usize;
        let sections = read_directory(&bytes, count)?;
        let image = Self { bytes, sections };
        if image.content_hash() != image.id() {
            return Err(ImageError::Damaged);
        }
        Ok(image)
    }

    /// XXH3-128 of everything behind the header: two compilations with the same result have the same id.
    pub fn id(&self) -> u128 {
        read_u128(&self.bytes, 24)
    }

    /// XXH3-128 of the source files it was compiled from.
    pub fn source(&self) -> u128 {
        read_u128(&self.bytes, 40)
    }

    /// Bytes of the whole.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true for an opened image; here because [`Image::len`] is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of one section; empty when the image has none of this kind.
    pub fn section(&self, section: Section) -> &[u8] {
        let range = self.sections.get(section as usize).cloned().unwrap_or(0..0);
        self.bytes.get(range).unwrap_or(&[])
    }

    fn content_hash(&self) -> u128 {
        xxh3_128(self.bytes.get(HEADER_BYTES..).unwrap_or(&[]))
    }
}

fn read_u128(bytes: &[u8], offset: usize) -> u128 {
    u128::from(u64_at(bytes, offset)) | (u128::from(u64_at(bytes, offset + 8)) << 64)
}

fn read_directory(bytes: &[u8], count: usize) -> Result<[Range<usize>; Section::COUNT], ImageError> {
    let mut sections: [Range<usize>; Section::COUNT] = std::array::from_fn(|_| 0..0);
    if count > Section::COUNT {
        return Err(ImageError::Directory);
    }
    for entry in 0..count {
        let at = HEADER_BYTES + entry * ENTRY_BYTES;
        let kind = u32_at(bytes, at) as usize;
        let start = u32_at(bytes, at + 4) as usize;
        let length = u32_at(bytes, at + 8) as usize;
        let end = start.checked_add(length).filter(|end| *end <= bytes.len()).ok_or(ImageError::Directory)?;
        let slot = sections.get_mut(kind).ok_or(ImageError::Directory)?;
        *slot = start..end;
    }
    Ok(sections)
}
