//! How much work one slice may do, counted in bytes of ordinary text that no cache knows.

/// What is left of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(i64);

/// A byte of text that is only hashed costs this small a part of one that is tokenized.
const CACHED: i64 = 64;

impl Budget {
    /// A slice of `bytes` bytes of fresh text.
    pub(crate) fn new(bytes: u32) -> Self {
        Self(i64::from(bytes.max(1)))
    }

    /// Whether the slice is over.
    #[inline]
    pub(crate) fn spent(self) -> bool {
        self.0 <= 0
    }

    /// Counts bytes of fresh text.
    #[inline]
    pub(crate) fn fresh(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// Counts bytes that were looked up.
    pub(crate) fn cached(&mut self, bytes: usize) {
        self.0 -= bytes as i64 / CACHED + 4;
    }

    /// Counts steps of a long merge. One costs as much as some eight bytes of ordinary text, most of whose pieces need
    /// no merging.
    #[inline]
    pub(crate) fn merge_step(&mut self) {
        self.0 -= 8;
    }
}
