//! Puts sections together to an image; used by the compiler, never in a filter.

use xxhash_rust::xxh3::xxh3_128;

use super::bytes::{push_u32, push_u64};
use super::{ALIGN, ENTRY_BYTES, FORMAT, HEADER_BYTES, MAGIC, Section};

/// Collects sections and lays them out.
#[derive(Debug, Default)]
pub struct ImageWriter {
    sections: Vec<(Section, Vec<u8>)>,
}

impl ImageWriter {
    /// Adds one section; empty ones are left out.
    pub fn add(&mut self, section: Section, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.sections.push((section, bytes));
        }
    }

    /// The image; `source` is the hash of what it was compiled from. `None` when it would pass 4 GiB.
    pub fn finish(self, source: u128) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        let directory = HEADER_BYTES + self.sections.len() * ENTRY_BYTES;
        let mut start = directory.next_multiple_of(ALIGN);
        for (section, bytes) in &self.sections {
            push_u32(&mut body, *section as u32);
            push_u32(&mut body, u32::try_from(start).ok()?);
            push_u32(&mut body, u32::try_from(bytes.len()).ok()?);
            push_u32(&mut body, 0);
            start = (start + bytes.len()).next_multiple_of(ALIGN);
        }
        for (_, bytes) in &self.sections {
            body.resize((HEADER_BYTES + body.len()).next_multiple_of(ALIGN) - HEADER_BYTES, 0);
            body.extend_from_slice(bytes);
        }
        let mut image = Vec::with_capacity(HEADER_BYTES + body.len());
        image.extend_from_slice(&MAGIC);
        push_u32(&mut image, FORMAT);
        push_u32(&mut image, u32::try_from(self.sections.len()).ok()?);
        push_u64(&mut image, (HEADER_BYTES + body.len()) as u64);
        image.extend_from_slice(&xxh3_128(&body).to_le_bytes());
        image.extend_from_slice(&source.to_le_bytes());
        image.resize(HEADER_BYTES, 0);
        image.extend_from_slice(&body);
        Some(image)
    }
}
