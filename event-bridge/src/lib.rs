//! The event bridge: follows engines' KV-cache events, keeps the exact index and pushes it into Envoy.
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | bytes of an engine's event messages to typed events; no sockets, no clock |
//! | [`policy`] | route policies: documents to what the filter evaluates |
//! | [`stream`] | the event sockets: connect, drain, replay |
//! | [`ingest`] | order, gaps and restarts of streams; events to the prefix index of a pool; no sockets, no clock |

pub mod config;
pub mod engine;
pub mod ingest;
pub mod policy;
pub mod stream;
