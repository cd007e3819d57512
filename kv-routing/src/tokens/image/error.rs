//! Why a buffer is not a usable compiled tokenizer.

use thiserror::Error;

/// Why a buffer is not a usable compiled tokenizer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImageError {
    /// Does not begin with [`super::MAGIC`].
    #[error("not a compiled tokenizer (wrong first bytes)")]
    Magic,
    /// Made for another layout.
    #[error("format {found}, this build reads {expected}: compile it again")]
    Format {
        /// Its format.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// Cut short or too long, for instance because a part is missing.
    #[error("{found} bytes where the header says {expected}: a part is missing or doubled")]
    Length {
        /// Bytes there.
        found: u64,
        /// Bytes announced.
        expected: u64,
    },
    /// A section lies outside the buffer, or is of an unknown kind.
    #[error("the section directory is damaged")]
    Directory,
    /// The content does not have the hash the header names.
    #[error("the content does not match its id: damaged on the way")]
    Damaged,
    /// The `template` section cannot be decoded.
    #[error("the chat template section is damaged")]
    Template,
    /// A value of the `meta` section is outside its range.
    #[error("meta field `{0}` has a value this build does not know")]
    Meta(&'static str),
}
