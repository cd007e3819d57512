//! Arguments of a method call, by position or by name.

use minijinja::value::{Kwargs, Rest, from_args};
use minijinja::{Error, Value};

use super::invalid;

/// The arguments of one call.
pub(super) struct Args {
    positional: Vec<Value>,
    named: Kwargs,
}

impl Args {
    pub(super) fn new(args: &[Value]) -> Result<Self, Error> {
        let (Rest(positional), named): (Rest<Value>, Kwargs) = from_args(args)?;
        Ok(Self { positional, named })
    }

    /// An argument that may be missing; none counts as missing.
    pub(super) fn optional(&self, index: usize, name: &str) -> Result<Option<Value>, Error> {
        let value = match self.positional.get(index) {
            Some(value) => Some(value.clone()),
            None if self.named.has(name) => Some(self.named.get::<Value>(name)?),
            None => None,
        };
        Ok(value.filter(|value| !value.is_none()))
    }

    pub(super) fn required(&self, index: usize, name: &str) -> Result<Value, Error> {
        self.optional(index, name)?.ok_or_else(|| invalid(format!("argument `{name}` is missing")))
    }

    pub(super) fn text(&self, index: usize, name: &str) -> Result<String, Error> {
        string(&self.required(index, name)?)
    }

    pub(super) fn optional_text(&self, index: usize, name: &str) -> Result<Option<String>, Error> {
        self.optional(index, name)?.map(|value| string(&value)).transpose()
    }

    pub(super) fn optional_int(&self, index: usize, name: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.optional(index, name)? else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| invalid(format!("argument `{name}` must be an integer")))
    }

    pub(super) fn positional(&self) -> &[Value] {
        &self.positional
    }

    pub(super) fn named(&self, name: &str) -> Option<Value> {
        if self.named.has(name) { self.named.get(name).ok() } else { None }
    }
}

fn string(value: &Value) -> Result<String, Error> {
    value.as_str().map(str::to_owned).ok_or_else(|| invalid(format!("a string is needed, not {}", value.kind())))
}
