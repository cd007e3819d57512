//! Where a pool's workers come from: the configuration, or a watched file.
//!
//! A file is watched by reading its metadata several times a second, which sees editors' saves, renames and the symlink
//! swaps of mounted ConfigMaps alike, on every file system. A bad file never changes the set of workers.

mod file;
mod task;

pub use task::{WorkersUpdate, watch, watch_text};
