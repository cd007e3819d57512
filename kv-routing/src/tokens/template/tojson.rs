//! The `tojson` filter of `transformers`: Python's `json.dumps` without HTML escaping.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::openai::value::{Float, float_repr, order};

/// `value | tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(super) fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        match args.get(index) {
            Some(value) => Ok(Some(value.clone())),
            None => kwargs.get(name),
        }
    };
    let ascii = argument(0, "ensure_ascii")?.is_some_and(|flag| flag.is_true());
    let indent = argument(1, "indent")?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|flag| flag.is_true());
    kwargs.assert_all_used()?;
    let indent = match indent {
        Some(value) if !value.is_none() => Some(indentation(&value)?),
        _ => None,
    };
    let (item_separator, key_separator) = match separators {
        Some(pair) if !pair.is_none() => (separator(&pair, 0)?, separator(&pair, 1)?),
        _ => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let mut writer = Writer { out: String::new(), indent, item_separator, key_separator, sort_keys, ascii };
    writer.value(value, 0)?;
    Ok(writer.out)
}

fn failed(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {}", problem.into()))
}

/// A number of spaces, or the text itself.
fn indentation(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => {
            let spaces = value.as_i64().ok_or_else(|| failed("indent must be a number or a string"))?;
            Ok(" ".repeat(usize::try_from(spaces.clamp(0, 64)).unwrap_or(0)))
        }
    }
}

fn separator(pair: &Value, index: usize) -> Result<String, Error> {
    let item = pair.get_item_by_index(index)?;
    item.as_str().map(str::to_owned).ok_or_else(|| failed("separators must be two strings"))
}

struct Writer {
    out: String,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ascii: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => return self.list(value, level),
            ValueKind::Map => return self.dict(value, level),
            _ if Float::of(value).is_some() => self.number(value),
            kind => return Err(failed(format!("a value of kind {kind} is not JSON serializable"))),
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) {
        match Float::of(value) {
            Some(float) if float.is_nan() => self.out.push_str("NaN"),
            Some(float) if float.is_infinite() => self.out.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" }),
            Some(float) => self.out.push_str(&float_repr(float)),
            // Writing to a string cannot fail.
            None => drop(write!(self.out, "{value}")),
        }
    }

    fn list(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            self.separate(empty, level + 1);
            empty = false;
            self.value(&item, level + 1)?;
        }
        self.close(empty, level, ']');
        Ok(())
    }

    fn dict(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        let mut pairs: Vec<(Value, Value)> =
            value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect();
        if self.sort_keys {
            let key = |index: usize| pairs.get(index).map(|(key, _)| key);
            let sorted = order(pairs.len(), &|a, b| key(a).cmp(&key(b)));
            pairs = sorted.into_iter().filter_map(|index| pairs.get(index).cloned()).collect();
        }
        self.out.push('{');
        let mut empty = true;
        for (key, item) in pairs {
            self.separate(empty, level + 1);
            empty = false;
            self.key(&key)?;
            self.out.push_str(&self.key_separator);
            self.value(&item, level + 1)?;
        }
        self.close(empty, level, '}');
        Ok(())
    }

    /// Keys that are not strings become strings, as `json.dumps` makes them.
    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.out.push('"');
                self.value(key, 0)?;
                self.out.push('"');
            }
            kind => return Err(failed(format!("keys cannot be of kind {kind}"))),
        }
        Ok(())
    }

    fn separate(&mut self, first: bool, level: usize) {
        if !first {
            self.out.push_str(&self.item_separator);
        }
        self.newline(level);
    }

    fn close(&mut self, empty: bool, level: usize, bracket: char) {
        if !empty {
            self.newline(level);
        }
        self.out.push(bracket);
    }

    fn newline(&mut self, level: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..level {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut plain = 0;
        for (at, char) in text.char_indices() {
            let beyond_ascii = char > '~';
            if !(char < ' ' || char == '"' || char == '\\' || (self.ascii && beyond_ascii)) {
                continue;
            }
            self.out.push_str(text.get(plain..at).unwrap_or_default());
            plain = at + char.len_utf8();
            self.escape(char);
        }
        self.out.push_str(text.get(plain..).unwrap_or_default());
        self.out.push('"');
    }

    fn escape(&mut self, char: char) {
        match char {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\u{8}' => self.out.push_str("\\b"),
            '\u{c}' => self.out.push_str("\\f"),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(self.out, "\\u{unit:04x}");
                }
            }
        }
    }
}
