//! A string without its escapes.
//!
//! Code has an escape in every line, at distances no processor foresees. So the special bytes of a whole block are found before the first
//! is looked at, each stretch between them is copied as if it were a block long, and nothing waits for what was found before.

use super::stretch::{BLOCK, specials};

/// What `\` and `byte` stand for; 0 when that is no escape of two bytes.
#[inline]
pub(super) fn short_escape(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' | b'/' => byte,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => 0,
    }
}

/// The string, in memory that is kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Unescaped {
    /// What lies behind `len` means nothing.
    bytes: Vec<u8>,
    len: usize,
}

impl Unescaped {
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Takes what `json` begins with up to something rare: the end of the string, a long escape, an error, or the end of the body
    /// being near. Returns how many bytes that were.
    pub(super) fn take_stretches(&mut self, json: &[u8]) -> usize {
        /// A block, a copy that begins at its end, and an escape there.
        const NEEDED: usize = 2 * BLOCK + 2;
        let mut at = 0;
        for (base, block) in (0..).step_by(BLOCK).zip(json.as_chunks::<BLOCK>().0) {
            if json.len() - base < NEEDED {
                break;
            }
            self.make_room(2 * BLOCK);
            // An escape may have gone one byte beyond the block before.
            let mut found = specials(block) & (u64::MAX << (at - base));
            while found != 0 {
                let place = found.trailing_zeros();
                let special = base + place as usize;
                self.copy(json, at, special - at);
                let [first, second] = [special, special + 1].map(|at| json.get(at).copied().unwrap_or(0));
                let char = short_escape(second);
                if first != b'\\' || char == 0 {
                    return special;
                }
                self.put(char);
                at = special + 2;
                // The byte behind the backslash is no beginning.
                found &= !(3 << place);
            }
            self.copy(json, at, (base + BLOCK).saturating_sub(at));
            at = at.max(base + BLOCK);
        }
        at
    }

    /// Copies a block and keeps `count` bytes of it.
    #[inline]
    fn copy(&mut self, json: &[u8], at: usize, count: usize) {
        let from = json.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>());
        let to = self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut::<BLOCK>());
        if let (Some(from), Some(to)) = (from, to) {
            *to = *from;
            self.len += count;
        }
    }

    #[inline]
    fn put(&mut self, char: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = char;
            self.len += 1;
        }
    }

    #[inline]
    fn make_room(&mut self, bytes: usize) {
        /// Room made at least.
        const STEP: usize = 1 << 10;
        if self.bytes.len() - self.len < bytes {
            self.bytes.resize((2 * self.len).max(self.len + bytes + STEP), 0);
        }
    }
}
