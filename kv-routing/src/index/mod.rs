//! Which target holds which prefix.
//!
//! The bridge keeps the exact [`PrefixIndex`] of a pool and publishes it as pages; the filter answers a prompt from the
//! pages alone with [`lookup`]. [`naive`] is the same index without any cleverness, the oracle of the tests. How runs
//! are cut, what a page looks like and what is bounded by what is written down in `README.md` beside this file.

mod block_map;
mod holder;
mod limits;
pub mod naive;
mod overlap;
mod pages;
mod reader;
mod run;
mod writer;

#[cfg(test)]
#[cfg(not(target_family = "wasm"))]
mod tests;

pub use limits::{IndexLimits, IndexStats, StoreOutcome};
pub use overlap::{Overlap, Overlaps};
pub use pages::{MAX_PAGE_BITS, PAGE_VERSION, page_of};
pub use reader::{LookupStats, PageSource, lookup};
pub use writer::PrefixIndex;
