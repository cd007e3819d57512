//! `str.format`, without format specifications.

use minijinja::{Error, Value};

use super::args::Args;
use super::invalid;
use crate::openai::value::write_repr;
use crate::tokens::template::filters::text;

/// Fills `{}`, `{0}`, `{name}`, `{name.attribute}`, `{name[key]}` and the conversions `!s` and `!r`.
pub(super) fn format(template: &str, args: &Args) -> Result<String, Error> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut next_index = 0;
    while let Some(at) = rest.find(['{', '}']) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            out.push_str(from.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let Some((field, after)) = from.strip_prefix('{').and_then(|field| field.split_once('}')) else {
            return Err(invalid("format: unbalanced braces"));
        };
        fill(field, args, &mut next_index, &mut out)?;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn fill(field: &str, args: &Args, next_index: &mut usize, out: &mut String) -> Result<(), Error> {
    if field.contains([':', '{']) {
        return Err(invalid("format: format specifications are not supported"));
    }
    let (name, conversion) = field.split_once('!').unwrap_or((field, "s"));
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, path) = name.split_at(end);
    let value = if first.is_empty() {
        *next_index += 1;
        args.positional().get(*next_index - 1).cloned()
    } else if let Ok(index) = first.parse::<usize>() {
        args.positional().get(index).cloned()
    } else {
        args.named(first)
    };
    let mut value = value.ok_or_else(|| invalid(format!("format: nothing for `{field}`")))?;
    for part in path.split(['.', '[']).skip(1) {
        let key = part.strip_suffix(']').unwrap_or(part);
        value = match key.parse::<usize>() {
            Ok(index) => value.get_item_by_index(index)?,
            Err(_) => value.get_item(&Value::from(key))?,
        };
    }
    match conversion {
        "s" => out.push_str(&text(&value)),
        "r" => write_repr(&value, out).map_err(|_| invalid("format: cannot print"))?,
        _ => return Err(invalid("format: unknown conversion")),
    }
    Ok(())
}
