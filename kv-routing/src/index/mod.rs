//! Which target holds which prefix.

mod overlap;
mod reader;
mod writer;

pub use overlap::{Overlap, Overlaps};
pub use reader::{LookupStats, PageSource, lookup};
pub use writer::{IndexLimits, IndexStats, PrefixIndex, StoreOutcome};
