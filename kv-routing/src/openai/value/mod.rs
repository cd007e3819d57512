//! Lists and dicts as templates see them: Python's, down to how they print.

mod dict;
mod float;
mod list;
mod repr;

#[cfg(test)]
mod tests;

pub use dict::{Dict, DictBuilder};
pub use float::Float;
pub use list::List;
pub use repr::{float_repr, write_python, write_repr};
