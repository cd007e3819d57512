//! Methods that templates call on Python's strings, lists and dicts.

mod args;
mod dict;
mod format;
mod list;
mod string;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

pub(super) use dict::items as dict_items;
pub(in crate::tokens) use string::python_space;
pub(super) use string::{capitalized, replaced, split_lines, strip_chars};

/// Methods that change their object: the engines' sandbox refuses these too.
pub(super) const FORBIDDEN: &[&str] = &[
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
    "add",
    "discard",
];

/// Calls a method that minijinja does not know.
pub(super) fn call(_state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => string::call(value, name, args),
        ValueKind::Map => dict::call(value, name, args),
        ValueKind::Seq | ValueKind::Iterable => list::call(value, name, args),
        _ => Err(unknown()),
    }
}

/// No such method; minijinja then looks for a callable item of that name.
fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn invalid(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}
