//! What can be wrong with msgpack bytes.

use thiserror::Error;

/// A fault and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("byte {at}: {fault}")]
pub struct MsgpackError {
    /// Offset of the offending value from the beginning of the payload.
    pub at: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The payload ends inside a value.
    #[error("payload ends inside a value")]
    Truncated,
    /// A collection or string claims more than the rest of the payload can hold.
    #[error("length {length} does not fit the {rest} bytes that follow")]
    Length {
        /// Claimed number of bytes or elements.
        length: u64,
        /// Bytes that follow.
        rest: usize,
    },
    /// The byte `0xc1`, which msgpack never uses.
    #[error("reserved byte 0xc1")]
    Reserved,
    /// A string that is not UTF-8.
    #[error("{field}: string is not UTF-8")]
    Utf8 {
        /// The field.
        field: &'static str,
    },
    /// A value of the wrong type.
    #[error("{field}: expected {wanted}, found {found}")]
    Type {
        /// The field.
        field: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number out of range.
    #[error("{field}: {value} is out of range")]
    Range {
        /// The field.
        field: &'static str,
        /// The number.
        value: i128,
    },
    /// A collection with more elements than any engine sends.
    #[error("{field}: {length} elements, at most {most} are accepted")]
    TooMany {
        /// The field.
        field: &'static str,
        /// Number of elements.
        length: u64,
        /// The bound.
        most: u64,
    },
    /// A collection with too few elements.
    #[error("{field}: {length} elements, at least {least} are needed")]
    TooFew {
        /// The field.
        field: &'static str,
        /// Number of elements.
        length: u64,
        /// What is needed.
        least: u64,
    },
    /// A field without which the value means nothing.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A value that is well formed and makes no sense.
    #[error("{field}: {what}")]
    Nonsense {
        /// The field.
        field: &'static str,
        /// Why.
        what: &'static str,
    },
}
