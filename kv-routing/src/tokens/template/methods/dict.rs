//! Dict methods.

use minijinja::{Error, Value};

use super::args::Args;
use super::{FORBIDDEN, invalid, unknown};
use crate::openai::value::{List, Shape};

fn pairs(value: &Value) -> impl Iterator<Item = (Value, Value)> {
    value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten()
}

/// `items()`: pairs.
pub(in crate::tokens::template) fn items(value: &Value) -> Value {
    List::shaped(pairs(value).map(|(key, item)| List::tuple(vec![key, item])).collect(), Shape::Items)
}

pub(super) fn call(value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match name {
        "get" => {
            let args = Args::new(args)?;
            let key = args.positional().first().ok_or_else(|| invalid("get: a key is needed"))?;
            let found = value.as_object().and_then(|object| object.get_value(key));
            Ok(found.or_else(|| args.positional().get(1).cloned()).unwrap_or_else(|| Value::from(())))
        }
        "items" => Ok(items(value)),
        "keys" => Ok(List::shaped(pairs(value).map(|(key, _)| key).collect(), Shape::Keys)),
        "values" => Ok(List::shaped(pairs(value).map(|(_, item)| item).collect(), Shape::Values)),
        "copy" => Ok(value.clone()),
        _ if FORBIDDEN.contains(&name) => {
            Err(invalid(format!("`{name}` would change a dict, which the sandbox forbids")))
        }
        _ => Err(unknown()),
    }
}
