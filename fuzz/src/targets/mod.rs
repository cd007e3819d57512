//! One function per target.

pub(crate) mod core;
pub(crate) mod engine;
pub(crate) mod sockets;
pub(crate) mod tokenizer;
