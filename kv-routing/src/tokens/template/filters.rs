//! Filters that differ from minijinja's own: they print as Python does and know Python's white space.

use std::borrow::Cow;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::methods::{capitalized, python_space, split_lines, strip_chars};
use crate::openai::value::{Float, List, write_python};

/// `str(value)`; nothing for an undefined one.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    if let Some(text) = value.as_str() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_python(value, &mut out);
    Cow::Owned(out)
}

fn invalid(problem: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// What a string filter returns: the value itself when nothing changed, which spares a copy.
fn changed(value: &Value, result: &str) -> Value {
    match value.as_str() {
        Some(text) if text.len() == result.len() => value.clone(),
        _ => Value::from(result),
    }
}

/// `trim(chars=none)`
pub(super) fn trim(value: &Value, chars: Option<Value>) -> Value {
    let text = text(value);
    let trimmed = match chars.as_ref().filter(|chars| !chars.is_none()).and_then(|chars| chars.as_str()) {
        Some(chars) => strip_chars(&text, chars),
        None => text.trim_matches(python_space),
    };
    changed(value, trimmed)
}

/// `upper`
pub(super) fn upper(value: &Value) -> String {
    text(value).to_uppercase()
}

/// `lower`
pub(super) fn lower(value: &Value) -> String {
    text(value).to_lowercase()
}

/// `capitalize`
pub(super) fn capitalize(value: &Value) -> String {
    capitalized(&text(value))
}

/// `title`: words begin behind white space, `-` and opening brackets.
pub(super) fn title(value: &Value) -> String {
    let text = text(value);
    let mut out = String::with_capacity(text.len());
    let mut word_start = true;
    for char in text.chars() {
        if word_start {
            out.extend(char.to_uppercase());
        } else {
            out.extend(char.to_lowercase());
        }
        word_start = char == '-' || python_space(char) || matches!(char, '(' | '{' | '[' | '<');
    }
    out
}

/// `replace(old, new, count=none)`
pub(super) fn replace(value: &Value, old: &Value, new: &Value, count: Option<i64>) -> String {
    super::methods::replaced(&text(value), &text(old), &text(new), count)
}

/// `string`
pub(super) fn string(value: &Value) -> Value {
    match value.as_str() {
        Some(_) => value.clone(),
        None => Value::from(text(value)),
    }
}

/// `length`
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| invalid(format!("a value of kind {} has no length", value.kind())))
}

/// `join(d='', attribute=none)`
pub(super) fn join(value: &Value, separator: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get("d")?,
    };
    let attribute: Option<Value> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    if value.is_none() {
        return Err(invalid("cannot join none".to_owned()));
    }
    let separator = separator.unwrap_or_default();
    let separator = text(&separator);
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        match &attribute {
            Some(attribute) if !attribute.is_none() => out.push_str(&text(&path(&item, attribute)?)),
            _ => out.push_str(&text(&item)),
        }
    }
    Ok(out)
}

/// An attribute with dots, as filters take it.
fn path(value: &Value, attribute: &Value) -> Result<Value, Error> {
    let Some(dotted) = attribute.as_str() else { return value.get_item(attribute) };
    let mut found = value.clone();
    for part in dotted.split('.') {
        found = match part.parse::<usize>() {
            Ok(index) => found.get_item_by_index(index)?,
            Err(_) => found.get_item(&Value::from(part))?,
        };
    }
    Ok(found)
}

/// `items`: pairs of a dict, nothing of an undefined value.
pub(super) fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(List::value(Vec::new()));
    }
    if value.kind() != ValueKind::Map {
        return Err(invalid("can only get item pairs from a mapping".to_owned()));
    }
    Ok(super::methods::dict_items(value))
}

/// `default(default_value='', boolean=false)`
pub(super) fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut args = args.0.into_iter();
    let other = match args.next() {
        Some(other) => other,
        None => kwargs.get::<Option<Value>>("default_value")?.unwrap_or_else(|| Value::from("")),
    };
    let falsy_too = match args.next() {
        Some(boolean) => boolean.is_true(),
        None => kwargs.get::<Option<Value>>("boolean")?.is_some_and(|boolean| boolean.is_true()),
    };
    kwargs.assert_all_used()?;
    Ok(if value.is_undefined() || (falsy_too && !value.is_true()) { other } else { value.clone() })
}

/// `int(default=0, base=10)`
pub(super) fn int(value: &Value, default: Option<Value>, base: Option<u32>) -> Value {
    let default = default.unwrap_or_else(|| Value::from(0));
    let parsed = match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => return value.clone(),
        ValueKind::Number | ValueKind::Plain => Float::of(value).and_then(truncated),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim_matches(python_space).replace('_', "");
            let base = base.unwrap_or(10);
            let digits = i128::from_str_radix(&text, base.clamp(2, 36)).ok();
            digits.or_else(|| text.parse::<f64>().ok().and_then(truncated))
        }
        _ => None,
    };
    parsed.map_or(default, |int| i64::try_from(int).map_or_else(|_| Value::from(int), Value::from))
}

fn truncated(float: f64) -> Option<i128> {
    (float.is_finite() && float.abs() < 1e38).then_some(float as i128)
}

/// `float(default=0.0)`
pub(super) fn float(value: &Value, default: Option<Value>) -> Value {
    let parsed = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::Plain => Float::of(value),
        ValueKind::String => value.as_str().and_then(|text| text.trim_matches(python_space).parse().ok()),
        _ => None,
    };
    parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from)
}

/// `list`
pub(super) fn list(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(invalid("none is not iterable".to_owned()));
    }
    Ok(List::value(value.try_iter()?.collect()))
}

/// `indent(width=4, first=false, blank=false)`
pub(super) fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(width) => Some(width),
        None => kwargs.get("width")?,
    };
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let margin = match width {
        Some(width) if width.as_str().is_some() => text(&width).into_owned(),
        Some(width) => " ".repeat(
            width
                .as_usize()
                .filter(|&width| width <= 1024)
                .ok_or_else(|| invalid("indent: width must be a string or a number up to 1024".to_owned()))?,
        ),
        None => " ".repeat(4),
    };
    // As in Jinja: a trailing newline survives, since the text is split with one more added.
    let with_newline = text(value).into_owned() + "\n";
    let mut out = if first { margin.clone() } else { String::new() };
    for (index, line) in split_lines(&with_newline, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
            if blank || !line.is_empty() {
                out.push_str(&margin);
            }
        }
        out.push_str(line);
    }
    Ok(out)
}
