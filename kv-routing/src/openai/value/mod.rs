//! Lists and dicts as templates see them: Python's, down to how they print.

mod dict;
mod float;
mod list;
mod order;
mod repr;

#[cfg(test)]
mod tests;

pub use dict::{Dict, DictBuilder};
pub use float::Float;
pub use list::{List, Shape};
pub(crate) use order::order;
pub use repr::{float_repr, write_python, write_repr};
