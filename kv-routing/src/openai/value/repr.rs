//! How Python prints values.

use std::fmt::{self, Write};

use minijinja::Value;
use minijinja::value::ValueKind;

use super::{Float, List};

/// `repr` of a finite or infinite float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let mut plain = format!("{value}");
    if !plain.contains('.') {
        plain.push_str(".0");
    }
    plain
}

/// Writes `str(value)`: what `{{ value }}` prints.
///
/// # Errors
/// Only when `out` fails.
pub fn write_python(value: &Value, out: &mut dyn Write) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write_repr(value, out),
    }
}

/// Writes `repr(value)`: what is printed of the items of a list.
///
/// # Errors
/// Only when `out` fails.
pub fn write_repr(value: &Value, out: &mut dyn Write) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => out.write_str("Undefined"),
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match Float::of(value) {
            Some(float) => out.write_str(&float_repr(float)),
            None => write!(out, "{value}"),
        },
        ValueKind::String => string_repr(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => sequence_repr(value, out),
        ValueKind::Map => mapping_repr(value, out),
        ValueKind::Iterable if value.len().is_some() => sequence_repr(value, out),
        _ => write!(out, "{value}"),
    }
}

fn sequence_repr(value: &Value, out: &mut dyn Write) -> fmt::Result {
    let shape = value.downcast_object_ref::<List>().map(List::shape).unwrap_or_default();
    let (open, close) = shape.brackets(value.len().unwrap_or(0));
    out.write_str(open)?;
    for (index, item) in value.as_object().and_then(|object| object.try_iter()).into_iter().flatten().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write_repr(&item, out)?;
    }
    out.write_str(close)
}

fn mapping_repr(value: &Value, out: &mut dyn Write) -> fmt::Result {
    out.write_char('{')?;
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
    for (index, (key, item)) in pairs.into_iter().flatten().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write_repr(&key, out)?;
        out.write_str(": ")?;
        write_repr(&item, out)?;
    }
    out.write_char('}')
}

/// Single quotes, unless the text has some and no double ones.
fn string_repr(text: &str, out: &mut dyn Write) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            _ if char == quote => write!(out, "\\{char}")?,
            _ if is_printable(char) => out.write_char(char)?,
            _ => match u32::from(char) {
                code @ 0..=0xff => write!(out, "\\x{code:02x}")?,
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}")?,
                code => write!(out, "\\U{code:08x}")?,
            },
        }
    }
    out.write_char(quote)
}

/// Python's `str.isprintable` for one character: not a control, format, surrogate, private, unassigned or separator
/// other than the space.
///
/// Rust's own escaping table (`char::escape_debug`) draws the same line, except that it also escapes combining
/// marks at the start of a text and the quotes, which are taken out here.
fn is_printable(char: char) -> bool {
    if char.is_ascii() {
        return !char.is_ascii_control();
    }
    char.escape_debug().count() == 1 || is_grapheme_extend(char)
}

/// Combining marks print as they are in Python, while `escape_debug` escapes those that extend a grapheme.
fn is_grapheme_extend(char: char) -> bool {
    // Within a string only the first character is treated so: put something in front.
    let mut buffer = String::with_capacity(8);
    buffer.push('a');
    buffer.push(char);
    buffer.escape_debug().count() == 2
}
