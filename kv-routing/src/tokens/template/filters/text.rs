//! Filters of texts, and of anything as text.

use std::borrow::Cow;

use minijinja::value::{Kwargs, Rest};
use minijinja::{Error, ErrorKind, Value};

use crate::openai::value::write_python;
use crate::tokens::template::methods::{capitalized, python_space, split_lines, strip_chars};

/// `str(value)`; nothing for an undefined one.
pub(in crate::tokens::template) fn text(value: &Value) -> Cow<'_, str> {
    if let Some(text) = value.as_str() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_python(value, &mut out);
    Cow::Owned(out)
}

pub(super) fn invalid(problem: String) -> Error {
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
pub(in crate::tokens::template) fn trim(value: &Value, chars: Option<Value>) -> Value {
    let text = text(value);
    let trimmed = match chars.as_ref().filter(|chars| !chars.is_none()).and_then(|chars| chars.as_str()) {
        Some(chars) => strip_chars(&text, chars),
        None => text.trim_matches(python_space),
    };
    changed(value, trimmed)
}

/// `upper`
pub(in crate::tokens::template) fn upper(value: &Value) -> String {
    text(value).to_uppercase()
}

/// `lower`
pub(in crate::tokens::template) fn lower(value: &Value) -> String {
    text(value).to_lowercase()
}

/// `capitalize`
pub(in crate::tokens::template) fn capitalize(value: &Value) -> String {
    capitalized(&text(value))
}

/// `title`: words begin behind white space, `-` and opening brackets.
pub(in crate::tokens::template) fn title(value: &Value) -> String {
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
pub(in crate::tokens::template) fn replace(value: &Value, old: &Value, new: &Value, count: Option<i64>) -> String {
    crate::tokens::template::methods::replaced(&text(value), &text(old), &text(new), count)
}

/// `string`
pub(in crate::tokens::template) fn string(value: &Value) -> Value {
    match value.as_str() {
        Some(_) => value.clone(),
        None => Value::from(text(value)),
    }
}

/// `length`
pub(in crate::tokens::template) fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| invalid(format!("a value of kind {} has no length", value.kind())))
}

/// `default(default_value='', boolean=false)`
pub(in crate::tokens::template) fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
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

/// `indent(width=4, first=false, blank=false)`
pub(in crate::tokens::template) fn indent(
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
