//! `{{ a + b + c }}` where a part is a literal, hence every part a text.
//!
//! Adding makes every partial sum twice over, and one of the parts is a whole message. Printed one after another, the parts are
//! copied once.

use std::borrow::Cow;

use minijinja::machinery::ast::{BinOpKind, Expr, Stmt};
use minijinja::{Error, ErrorKind, Value};

use super::level::{Level, split_outer};
use super::tree;

/// Filter that a part which is no literal goes through. A function would be looked up in every scope first.
pub(in crate::tokens::template) const TEXT: &str = "__text";

/// The value itself, which must be a text as for adding it to one.
pub(in crate::tokens::template) fn text(value: &Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => Err(Error::new(ErrorKind::InvalidOperation, format!("cannot add {} to a text", value.kind()))),
    }
}

/// Turns printed sums into prints of their parts.
pub(super) fn sums_printed_in_parts(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let length = tag_length(tag);
        let (tag, after) = tag.split_at(length);
        if is_raw(tag) {
            // What follows may be no tags at all.
            out.push_str(tag);
            out.push_str(after);
            return out;
        }
        match parts_of(tag) {
            Some(parts) => out.push_str(&parts),
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_raw(tag: &str) -> bool {
    tag.strip_prefix("{%").is_some_and(|inside| inside.trim_start_matches(['-', '+']).trim_start().starts_with("raw"))
}

/// Bytes of the tag, comment or brace at the start of `text`.
fn tag_length(text: &str) -> usize {
    let end = match text.as_bytes() {
        [b'{', b'#', ..] => text.find("#}").map(|at| at + 2),
        [b'{', b'%', ..] => close(text, "%}"),
        [b'{', b'{', ..] => close(text, "}}"),
        _ => Some(1),
    };
    end.unwrap_or(text.len())
}

/// Where the tag that `text` begins with ends, strings and inner brackets passed over.
fn close(text: &str, end: &str) -> Option<usize> {
    let mut level = Level::default();
    for (at, char) in text.char_indices().skip(2) {
        if level.is_outer() && text.get(at..)?.starts_with(end) {
            return Some(at + end.len());
        }
        level.pass(char);
    }
    None
}

/// The same tag as several, when it prints a sum with a literal.
fn parts_of(tag: &str) -> Option<String> {
    let inside = tag.strip_prefix("{{")?.strip_suffix("}}")?;
    let open = if inside.starts_with(['-', '+']) { 1 } else { 0 };
    let shut = inside.len() - if inside.get(open..)?.ends_with(['-', '+']) { 1 } else { 0 };
    let (open, inside, shut) = (inside.get(..open)?, inside.get(open..shut)?, inside.get(shut..)?);
    let parts = split_outer(inside, '+');
    let source = format!("{{{{{inside}}}}}");
    let is_sum = parts.len() > 1 && adds_literal(&source, parts.len() - 1);
    is_sum.then(|| {
        let printed: Vec<String> = joined(&parts).iter().map(|part| print(part)).collect();
        format!("{{{{{open}{}{shut}}}}}", printed.join("}}{{"))
    })
}

/// The parts, literals in a row made one where their quotes are the same.
fn joined<'a>(parts: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut joined: Vec<Cow<'a, str>> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut() {
            Some(last) if is_literal(last.trim()) && is_literal(part.trim()) && quote(last) == quote(part) => {
                let text = format!(" {}{} ", without_last(last.trim()), part.trim().get(1..).unwrap_or_default());
                *last = Cow::Owned(text);
            }
            _ => joined.push(Cow::Borrowed(part)),
        }
    }
    joined
}

fn quote(literal: &str) -> Option<char> {
    literal.trim_start().chars().next()
}

fn without_last(text: &str) -> &str {
    text.get(..text.len().saturating_sub(1)).unwrap_or_default()
}

fn print(part: &str) -> String {
    if is_literal(part.trim()) { part.to_owned() } else { format!(" ({part})|{TEXT} ") }
}

fn is_literal(part: &str) -> bool {
    let mut level = Level::default();
    let mut outside = 0;
    for char in part.chars() {
        outside += u32::from(level.is_outer());
        level.pass(char);
    }
    part.starts_with(['\'', '"']) && outside == 1 && level.is_outer()
}

/// Whether `source` prints a sum of `sums` additions, one part of it a literal text.
fn adds_literal(source: &str, sums: usize) -> bool {
    let Ok(Stmt::Template(root)) = tree(source) else { return false };
    let [Stmt::EmitExpr(printed)] = root.children.as_slice() else { return false };
    let mut literal = false;
    let mut found = 0;
    let mut left = &printed.expr;
    while let Expr::BinOp(sum) = left
        && matches!(sum.op, BinOpKind::Add)
    {
        found += 1;
        literal |= is_text(&sum.right);
        left = &sum.left;
    }
    (literal || is_text(left)) && found == sums
}

fn is_text(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(value) if value.value.as_str().is_some())
}

#[cfg(test)]
mod tests {
    use super::sums_printed_in_parts;

    #[test]
    fn sums_with_a_literal_are_printed_in_parts() {
        for (source, expected) in [
            (
                "{{- '<' + role + '\\n' + m.content + '>' -}}",
                "{{- '<' }}{{ ( role )|__text }}{{ '\\n' }}{{ ( m.content )|__text }}{{ '>' -}}",
            ),
            (
                "{{ bos + f('a' + b, {'c': d}) + \"+}}'\" }}",
                "{{ ( bos )|__text }}{{ ( f('a' + b, {'c': d}) )|__text }}{{ \"+}}'\" }}",
            ),
            ("{{ a + b }}{{ a ~ 'b' }}{{ x|trim }}", "{{ a + b }}{{ a ~ 'b' }}{{ x|trim }}"),
            ("{{ 'a' + b if c else d }}{{ 'a' + b == c }}", "{{ 'a' + b if c else d }}{{ 'a' + b == c }}"),
            ("{{ ('a' + b)|trim + c|trim + 'd' }}", "{{ ( ('a' + b)|trim )|__text }}{{ ( c|trim )|__text }}{{ 'd' }}"),
            ("{{ 'a' + b - c + d }}{{ 'a' + (b - c) }}", "{{ 'a' + b - c + d }}{{ 'a' }}{{ ( (b - c) )|__text }}"),
            ("{# {{ 'a' + b }} #}{% set x = 'a' + b %}{ '+' }", "{# {{ 'a' + b }} #}{% set x = 'a' + b %}{ '+' }"),
            ("{% raw %}{{ 'a' + b }}{% endraw %}", "{% raw %}{{ 'a' + b }}{% endraw %}"),
            ("{{ c + '</s>' + '\\n' + \"!\" }}", "{{ ( c )|__text }}{{ '</s>\\n' }}{{ \"!\" }}"),
            ("{{ 'it\\'s +' + c }}", "{{ 'it\\'s +' }}{{ ( c )|__text }}"),
        ] {
            let made = sums_printed_in_parts(source);
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(squeezed(&made), squeezed(expected));
        }
    }
}
