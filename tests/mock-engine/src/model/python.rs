//! Values printed the way Python prints them: `str()`, `repr()` and `json.dumps()`.

use minijinja::value::{Value, ValueKind};

/// Options of `json.dumps`.
#[derive(Clone, Debug)]
pub(super) struct Dump {
    pub(super) indent: Option<usize>,
    pub(super) ensure_ascii: bool,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) sort_keys: bool,
}

/// What `{{ value }}` prints.
pub(super) fn to_text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        _ => repr(value),
    }
}

/// Which ends are stripped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Both,
}

/// Python's `strip` and its like: of the characters in `set`, or of white space, which in Python includes the four
/// information separators.
pub(super) fn strip<'t>(text: &'t str, set: Option<&str>, side: Side) -> &'t str {
    let stripped = |character: char| match set {
        Some(set) => set.contains(character),
        None => character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character),
    };
    let text = if side == Side::Right { text } else { text.trim_start_matches(stripped) };
    if side == Side::Left { text } else { text.trim_end_matches(stripped) }
}

/// Python's `repr`.
pub(super) fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number => number(value),
        ValueKind::String => quote(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<String> = value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Map => {
            let pairs: Vec<String> =
                pairs(value).iter().map(|(key, item)| format!("{}: {}", repr(key), repr(item))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => value.to_string(),
    }
}

/// Python's `json.dumps`.
pub(super) fn json_dumps(value: &Value, dump: &Dump) -> String {
    let mut out = String::new();
    write_json(&mut out, value, dump, 0);
    out
}

fn pairs(map: &Value) -> Vec<(Value, Value)> {
    map.try_iter()
        .into_iter()
        .flatten()
        .map(|key| {
            let item = map.get_item(&key).unwrap_or_default();
            (key, item)
        })
        .collect()
}

fn write_json(out: &mut String, value: &Value, dump: &Dump, depth: usize) {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            write_container(out, ('[', ']'), &items, dump, depth, |out, item| write_json(out, item, dump, depth + 1));
        }
        ValueKind::Map => {
            let mut items = pairs(value);
            if dump.sort_keys {
                items.sort_by_key(|(key, _)| to_text(key));
            }
            write_container(out, ('{', '}'), &items, dump, depth, |out, (key, item)| {
                write_string(out, &json_key(key), dump.ensure_ascii);
                out.push_str(&dump.key_separator);
                write_json(out, item, dump, depth + 1);
            });
        }
        _ => write_string(out, &to_text(value), dump.ensure_ascii),
    }
}

fn json_key(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        _ => to_text(key),
    }
}

fn write_container<T>(
    out: &mut String,
    (open, close): (char, char),
    items: &[T],
    dump: &Dump,
    depth: usize,
    mut write_item: impl FnMut(&mut String, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&dump.item_separator);
        }
        new_line(out, dump, depth + 1);
        write_item(out, item);
    }
    if !items.is_empty() {
        new_line(out, dump, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, dump: &Dump, depth: usize) {
    if let Some(indent) = dump.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            plain if plain >= ' ' && (plain.is_ascii() || !ensure_ascii) => out.push(plain),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
}

/// Python's `repr` of a float: the shortest digits, scientific from 1e16 on and below 1e-4.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Python's `repr` of a string.
fn quote(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(mark);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            quoted if quoted == mark => {
                out.push('\\');
                out.push(quoted);
            }
            control if control.is_control() || is_odd_space(control) => out.push_str(&escape(control)),
            plain => out.push(plain),
        }
    }
    out.push(mark);
    out
}

/// Separators and format characters that Python does not count as printable.
fn is_odd_space(character: char) -> bool {
    (character.is_whitespace() && character != ' ')
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

fn escape(character: char) -> String {
    let code = u32::from(character);
    match code {
        0..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}
