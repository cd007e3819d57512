//! String methods.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::args::Args;
use super::{invalid, unknown};
use crate::openai::value::List;

/// `str.isspace` for one character: Unicode white space and the four separator controls.
pub(in crate::tokens) fn python_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\x1c'..='\x1f')
}

pub(super) fn call(value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let subject = value.as_str().unwrap_or_default();
    let args = Args::new(args)?;
    Ok(match name {
        "strip" | "lstrip" | "rstrip" => {
            same_or_new(value, stripped(subject, name, args.optional_text(0, "chars")?.as_deref()))
        }

        "split" | "rsplit" => split(value, subject, name == "rsplit", &args)?,
        "splitlines" => {
            let keep = args.optional(0, "keepends")?.is_some_and(|keep| keep.is_true());
            list(split_lines(subject, keep))
        }
        "partition" => partition(subject, subject.split_once(&*separator(&args)?), &separator(&args)?, true),
        "rpartition" => partition(subject, subject.rsplit_once(&*separator(&args)?), &separator(&args)?, false),
        "startswith" => affix(subject, &args, |part| subject.starts_with(part))?,
        "endswith" => affix(subject, &args, |part| subject.ends_with(part))?,
        "removeprefix" => same_or_new(value, subject.strip_prefix(&*args.text(0, "prefix")?).unwrap_or(subject)),
        "removesuffix" => same_or_new(value, subject.strip_suffix(&*args.text(0, "suffix")?).unwrap_or(subject)),
        "replace" => {
            let count = args.optional_int(2, "count")?;
            Value::from(replaced(subject, &args.text(0, "old")?, &args.text(1, "new")?, count))
        }
        "find" | "index" | "rfind" | "rindex" => find(subject, name, &args)?,
        "count" => Value::from(occurrences(subject, &args.text(0, "sub")?)),
        "join" => join(subject, &args.required(0, "iterable")?)?,
        "format" => Value::from(super::format::format(subject, &args)?),
        "upper" => Value::from(subject.to_uppercase()),
        "lower" => Value::from(subject.to_lowercase()),
        "capitalize" => Value::from(capitalized(subject)),
        "title" => Value::from(titled(subject)),
        "swapcase" => Value::from(swapped(subject)),
        "ljust" | "rjust" | "center" | "zfill" => justify(subject, name, &args)?,
        _ => predicate(subject, name).map(Value::from).ok_or_else(unknown)?,
    })
}

/// The value itself when `text` is all of it: a copy of a long content costs more than anything else here.
fn same_or_new(value: &Value, text: &str) -> Value {
    let unchanged = value.as_str().is_some_and(|whole| whole.len() == text.len());
    if unchanged { value.clone() } else { Value::from(text) }
}

fn list<'s>(parts: impl IntoIterator<Item = &'s str>) -> Value {
    List::value(parts.into_iter().map(Value::from).collect())
}

fn tuple(parts: [&str; 3]) -> Value {
    List::tuple(parts.into_iter().map(Value::from).collect())
}

fn separator(args: &Args) -> Result<String, Error> {
    let separator = args.text(0, "sep")?;
    if separator.is_empty() { Err(invalid("empty separator")) } else { Ok(separator) }
}

/// Takes the characters in `chars` off both ends.
pub(in crate::tokens::template) fn strip_chars<'s>(subject: &'s str, chars: &str) -> &'s str {
    subject.trim_matches(|char| chars.contains(char))
}

fn stripped<'s>(subject: &'s str, name: &str, chars: Option<&str>) -> &'s str {
    let dropped = |char: char| chars.map_or_else(|| python_space(char), |chars| chars.contains(char));
    match name {
        "lstrip" => subject.trim_start_matches(dropped),
        "rstrip" => subject.trim_end_matches(dropped),
        _ => subject.trim_matches(dropped),
    }
}

fn split(value: &Value, subject: &str, from_right: bool, args: &Args) -> Result<Value, Error> {
    let most = args.optional_int(1, "maxsplit")?.and_then(|most| usize::try_from(most).ok());
    let Some(separator) = args.optional_text(0, "sep")? else {
        return Ok(list(split_space(subject, from_right, most)));
    };
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let mut parts: Vec<&str> = match (most, from_right) {
        (None, _) => subject.split(&*separator).collect(),
        (Some(most), false) => subject.splitn(most + 1, &*separator).collect(),
        (Some(most), true) => subject.rsplitn(most + 1, &*separator).collect(),
    };
    if most.is_some() && from_right {
        parts.reverse();
    }
    Ok(if parts.len() == 1 { List::value(vec![value.clone()]) } else { list(parts) })
}

/// Words between white space, at most `most` cuts; what remains keeps its white space except where it was cut.
fn split_space(subject: &str, from_right: bool, most: Option<usize>) -> Vec<&str> {
    let mut words = Vec::new();
    let near = |text: &'_ str| -> usize {
        // Bytes of white space at the end that is cut from.
        text.len()
            - if from_right { text.trim_end_matches(python_space) } else { text.trim_start_matches(python_space) }.len()
    };
    let mut rest = subject;
    loop {
        let space = near(rest);
        rest = if from_right { rest.get(..rest.len() - space) } else { rest.get(space..) }.unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        if most.is_some_and(|most| words.len() >= most) {
            words.push(rest);
            break;
        }
        let cut = if from_right {
            rest.rfind(python_space).map(|at| at + space_len(rest, at))
        } else {
            rest.find(python_space)
        };
        let (left, right) = rest.split_at(cut.unwrap_or(if from_right { 0 } else { rest.len() }));
        let (word, other) = if from_right { (right, left) } else { (left, right) };
        words.push(word);
        rest = other;
    }
    if from_right {
        words.reverse();
    }
    words
}

/// Bytes of the character at `at`.
fn space_len(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
}

/// `str.splitlines`: at all of Python's line boundaries; no empty line behind the last one.
pub(in crate::tokens::template) fn split_lines(subject: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut chars = subject.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        if !matches!(char, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            continue;
        }
        let mut end = at + char.len_utf8();
        if char == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(subject.get(start..if keep_ends { end } else { at }).unwrap_or_default());
        start = end;
    }
    if start < subject.len() {
        lines.push(subject.get(start..).unwrap_or_default());
    }
    lines
}

fn partition(subject: &str, found: Option<(&str, &str)>, separator: &str, from_left: bool) -> Value {
    match (found, from_left) {
        (Some((left, right)), _) => tuple([left, separator, right]),
        (None, true) => tuple([subject, "", ""]),
        (None, false) => tuple(["", "", subject]),
    }
}

/// `startswith` and `endswith` take one string or several.
fn affix(_subject: &str, args: &Args, matches: impl Fn(&str) -> bool) -> Result<Value, Error> {
    if args.positional().len() > 1 {
        return Err(invalid("startswith and endswith take no positions here"));
    }
    let wanted = args.required(0, "prefix")?;
    if let Some(part) = wanted.as_str() {
        return Ok(Value::from(matches(part)));
    }
    if !matches!(wanted.kind(), ValueKind::Seq) {
        return Err(invalid("startswith and endswith take a string or several"));
    }
    Ok(Value::from(wanted.try_iter()?.any(|part| part.as_str().is_some_and(&matches))))
}

/// `str.replace`; no or a negative `count` means all.
pub(in crate::tokens::template) fn replaced(subject: &str, old: &str, new: &str, count: Option<i64>) -> String {
    match count.and_then(|count| usize::try_from(count).ok()) {
        Some(count) => subject.replacen(old, new, count),
        None => subject.replace(old, new),
    }
}

/// Positions count characters.
fn find(subject: &str, name: &str, args: &Args) -> Result<Value, Error> {
    if args.positional().len() > 1 {
        return Err(invalid(format!("{name} takes no positions here")));
    }
    let wanted = args.text(0, "sub")?;
    let at = if name.starts_with('r') { subject.rfind(&*wanted) } else { subject.find(&*wanted) };
    match at {
        Some(at) => Ok(Value::from(subject.get(..at).unwrap_or_default().chars().count())),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(invalid(format!("{name}: substring not found"))),
    }
}

fn occurrences(subject: &str, wanted: &str) -> usize {
    if wanted.is_empty() { subject.chars().count() + 1 } else { subject.matches(wanted).count() }
}

fn join(separator: &str, items: &Value) -> Result<Value, Error> {
    if items.is_none() || items.is_undefined() {
        return Err(invalid("join: can only join an iterable"));
    }
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(item.as_str().ok_or_else(|| invalid("join: an item is not a string"))?);
    }
    Ok(Value::from(out))
}

/// Every character with what it is in lower case, which for a sigma depends on its neighbours.
fn with_lower(subject: &str, mut each: impl FnMut(char, &str)) {
    let lower = subject.to_lowercase();
    let mut rest = lower.as_str();
    for char in subject.chars() {
        let bytes = char.to_lowercase().map(char::len_utf8).sum();
        let (own, others) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
        each(char, own);
        rest = others;
    }
}

/// First character in title case, the others in lower case.
pub(in crate::tokens::template) fn capitalized(subject: &str) -> String {
    let mut out = String::with_capacity(subject.len());
    with_lower(subject, |char, lower| {
        if out.is_empty() {
            push_title_case(char, &mut out);
        } else {
            out.push_str(lower);
        }
    });
    out
}

/// Every cased character behind an uncased one in title case, all others in lower case.
fn titled(subject: &str) -> String {
    let mut out = String::with_capacity(subject.len());
    let mut in_word = false;
    with_lower(subject, |char, lower| {
        if in_word {
            out.push_str(lower);
        } else {
            push_title_case(char, &mut out);
        }
        // The digraphs in title case are neither lower nor upper case.
        in_word = char.is_lowercase() || char.is_uppercase() || !lower.starts_with(char);
    });
    out
}

/// Title case: upper case, of several letters only the first; digraphs, Georgian letters and Greek ones with an iota below have their own.
fn push_title_case(char: char, out: &mut String) {
    let own = match char {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        '\u{10d0}'..='\u{10ff}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' => char,
        '\u{1f80}'..='\u{1faf}' => char::from_u32(char as u32 | 8).unwrap_or(char),
        '\u{1fb3}' => '\u{1fbc}',
        '\u{1fc3}' => '\u{1fcc}',
        '\u{1ff3}' => '\u{1ffc}',
        '\u{149}' => return out.push_str("\u{2bc}N"),
        _ => {
            let mut upper = char.to_uppercase();
            out.extend(upper.next());
            return out.extend(upper.flat_map(char::to_lowercase).map(|c| if c == 'ι' { '\u{345}' } else { c }));
        }
    };
    out.push(own);
}

fn swapped(subject: &str) -> String {
    let mut out = String::with_capacity(subject.len());
    with_lower(subject, |char, lower| {
        if char.is_uppercase() {
            out.push_str(lower);
        } else if char.is_lowercase() {
            out.extend(char.to_uppercase());
        } else {
            out.push(char);
        }
    });
    out
}

fn justify(subject: &str, name: &str, args: &Args) -> Result<Value, Error> {
    let width = args.optional_int(0, "width")?.ok_or_else(|| invalid(format!("{name}: a width is needed")))?;
    let fill = args.optional_text(1, "fillchar")?.and_then(|fill| fill.chars().next()).unwrap_or(' ');
    let missing = usize::try_from(width).unwrap_or(0).min(4096).saturating_sub(subject.chars().count());
    let pad = |count: usize, char: char| std::iter::repeat_n(char, count).collect::<String>();
    Ok(Value::from(match name {
        "ljust" => subject.to_owned() + &pad(missing, fill),
        "rjust" => pad(missing, fill) + subject,
        "zfill" => {
            let digits = subject.trim_start_matches(['+', '-']);
            let (sign, digits) = if subject.len() == digits.len() + 1 { subject.split_at(1) } else { ("", subject) };
            sign.to_owned() + &pad(missing, '0') + digits
        }
        _ => {
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            pad(left, fill) + subject + &pad(missing - left, fill)
        }
    }))
}

fn predicate(subject: &str, name: &str) -> Option<bool> {
    match name {
        "isspace" => Some(!subject.is_empty() && subject.chars().all(python_space)),
        "isascii" => Some(subject.is_ascii()),
        _ => None,
    }
}
