//! Jinja tests (`x is iterable`) where Python's notion differs from minijinja's.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::openai::value::Float;

/// Strings, lists, dicts and undefined values; not none, unlike in minijinja.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// What has a length and items: strings and dicts too.
pub(super) fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// Booleans are numbers.
pub(super) fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_float(value)
}

/// Also those that are objects here.
pub(super) fn is_float(value: &Value) -> bool {
    Float::of(value).is_some()
}

/// Functions and macros; not implemented by minijinja.
pub(super) fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain && !is_float(value)
}

/// A remainder of zero; minijinja's own panics on a divisor of zero.
pub(super) fn is_divisible_by(value: &Value, divisor: &Value) -> bool {
    match (value.as_i64(), divisor.as_i64()) {
        (Some(value), Some(divisor)) => value.checked_rem(divisor) == Some(0),
        _ => false,
    }
}
