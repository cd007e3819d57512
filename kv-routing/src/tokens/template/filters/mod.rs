//! Filters that differ from minijinja's own: they print as Python does, know Python's white space and take its
//! arguments.

pub(super) mod numbers;
pub(super) mod sequences;
pub(super) mod text;

pub(super) use text::text;
