//! A small msgpack reader for untrusted bytes: borrows everything, allocates nothing by a length it was told, and
//! knows at which byte something went wrong.

mod error;
mod reader;

pub use error::{Fault, MsgpackError};
pub use reader::{Reader, Token};

#[cfg(test)]
mod tests;
