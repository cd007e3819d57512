//! Bytes of an engine's event messages to typed events. Every decoder is a function over `&[u8]` without sockets or
//! clock: bounded, never panicking, with an error that says where the bytes went wrong.
