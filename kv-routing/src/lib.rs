//! Pure KV-cache-aware routing: bytes and numbers in, decisions out.
//!
//! The crate is compiled twice: natively for the event bridge and for tests, and to 32-bit WebAssembly for the
//! Envoy filter. Both sides must compute the same thing, so everything that decides lives here, and nothing here
//! may see sockets, async runtimes, clocks, environment, metrics or an Envoy host. Time and random numbers are
//! arguments; integers that leave the crate have a fixed width, since `usize` has 32 bits in the filter.
//!
//! | module | what |
//! |---|---|
//! | [`block`] | tokens to full blocks to chained hashes; the only definition of either hash |
//! | [`target`] | names of what is chosen: target ids, slots, cache tiers |
//! | [`index`] | which target holds which prefix: writer, page format, reader, naive oracle |
//! | [`handoff`] | what prefill and decode engines are sent when different ones serve a request |
//! | [`openai`] | request bodies to what routing needs of them |
//! | [`tokens`] | prompt rendering, tokenizer, segment cache |
//! | [`policy`] | cost, pick, load ledger |
//! | [`wire`] | bridge to filter messages and shared-data keys |

pub mod block;
pub mod handoff;
pub mod index;
pub mod openai;
pub mod policy;
pub mod target;
pub mod tokens;
pub mod wire;
