//! Version byte and bounded bincode, shared by all messages.

use bincode::Encode;
use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::de::BorrowDecode;
use thiserror::Error;

use super::VERSION;

/// No message may claim to need more than this.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Why bytes are not the message they should be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// Nothing, or less than the fixed header.
    #[error("message of {0} bytes is shorter than its header")]
    Short(usize),
    /// Filter and bridge come from different releases.
    #[error("wire version {found}, this build speaks {VERSION}: run filter and bridge of the same release")]
    Version {
        /// First byte of the message.
        found: u8,
    },
    /// The body does not decode.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// A value cannot be encoded.
    #[error("cannot encode: {0}")]
    Encode(String),
}

fn config() -> Configuration<LittleEndian, Fixint, Limit<MAX_MESSAGE_BYTES>> {
    bincode::config::standard().with_fixed_int_encoding().with_limit::<MAX_MESSAGE_BYTES>()
}

/// Version byte, then `header` as it is, then the bincode of `body`.
pub(super) fn encode(header: &[u8], body: &impl Encode) -> Result<Vec<u8>, WireError> {
    let body = bincode::encode_to_vec(body, config()).map_err(|error| WireError::Encode(error.to_string()))?;
    let mut bytes = Vec::with_capacity(1 + header.len() + body.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// Gives a type that is a whole message its two ways.
macro_rules! message {
    ($message:ty) => {
        impl $message {
            /// Encodes.
            ///
            /// # Errors
            /// [`WireError::Encode`](crate::wire::WireError::Encode) when it is larger than a message may be.
            pub fn encode(&self) -> Result<Vec<u8>, crate::wire::WireError> {
                crate::wire::codec::encode(&[], self)
            }

            /// Decodes.
            ///
            /// # Errors
            /// [`WireError`](crate::wire::WireError) for anything that `encode` did not make.
            pub fn decode(bytes: &[u8]) -> Result<Self, crate::wire::WireError> {
                crate::wire::codec::decode(crate::wire::codec::versioned(bytes)?)
            }
        }
    };
}
pub(super) use message;

/// Checks the version byte and returns what follows it.
pub(super) fn versioned(bytes: &[u8]) -> Result<&[u8], WireError> {
    match bytes.split_first() {
        None => Err(WireError::Short(0)),
        Some((&VERSION, rest)) => Ok(rest),
        Some((&found, _)) => Err(WireError::Version { found }),
    }
}

/// Decodes a bincode body that must fill `bytes` exactly.
pub(super) fn decode<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Result<T, WireError> {
    let (value, read) =
        bincode::borrow_decode_from_slice(bytes, config()).map_err(|error| WireError::Malformed(error.to_string()))?;
    if read == bytes.len() {
        Ok(value)
    } else {
        Err(WireError::Malformed(format!("{} bytes after the end", bytes.len() - read)))
    }
}
