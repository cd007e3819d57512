//! What is changed in a template's source before it compiles.

use std::borrow::Cow;

use minijinja::machinery::ast::{Expr, Slice};

use super::analysis::{Node, tree, walk};
use super::error::TemplateError;

/// Function that stands for slices with a step; see [`super::slice`].
pub(super) const SLICE: &str = "__slice";

/// The source to compile.
pub(super) fn prepare(source: &str) -> Result<String, TemplateError> {
    let scoped = plain_scopes(source);
    stepped_slices_called(&scoped)
}

/// Turns `{% generation %}` blocks, which only mark the assistant's text for training, into plain scopes.
pub(super) fn plain_scopes(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let name = tag.trim_start_matches("{%").trim_start_matches(['-', '+']).trim_end_matches("%}");
        match name.trim_end_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Replaces `x[a:b:c]` by a function call, unless the step is a positive constant: minijinja's own slicing backwards
/// panics on an empty value.
fn stepped_slices_called(source: &str) -> Result<String, TemplateError> {
    let root = tree(source)?;
    let mut edits: Vec<Edit> = Vec::new();
    let mut odd = None;
    walk(Node::Stmt(&root), &mut |node| {
        let Node::Expr(Expr::Slice(slice)) = node else { return };
        if slice
            .step
            .as_ref()
            .is_none_or(|step| step.as_const().and_then(|step| step.as_i64()).is_some_and(|step| step > 0))
        {
            return;
        }
        let span = slice.span();
        // The span of a chain of lookups begins at its last link: the first one says where all of it begins.
        let start = first_offset(&slice.expr).min(span.start_offset);
        match call_edits(source, slice, start as usize, span.end_offset as usize) {
            Some(made) => edits.extend(made),
            None => odd = odd.or(Some(u32::from(span.start_line))),
        }
    });
    if let Some(line) = odd {
        return Err(TemplateError::Unsupported { what: "a slice this renderer cannot take apart".to_owned(), line });
    }
    edits.sort_by_key(|edit| edit.at);
    let mut out = String::with_capacity(source.len() + edits.len() * 16);
    let mut from = 0;
    for edit in &edits {
        out.push_str(source.get(from..edit.at).unwrap_or_default());
        out.push_str(&edit.text);
        from = edit.at + edit.dropped;
    }
    out.push_str(source.get(from..).unwrap_or_default());
    Ok(out)
}

/// Text put in at a place, and how many bytes there it replaces.
struct Edit {
    at: usize,
    dropped: usize,
    text: String,
}

/// Where an expression begins.
fn first_offset(expr: &Expr<'_>) -> u32 {
    let inner = match expr {
        Expr::GetAttr(node) => first_offset(&node.expr),
        Expr::GetItem(node) => first_offset(&node.expr),
        Expr::Slice(node) => first_offset(&node.expr),
        Expr::Call(node) => first_offset(&node.expr),
        _ => u32::MAX,
    };
    expr.span().start_offset.min(inner)
}

fn call_edits(source: &str, slice: &Slice<'_>, start: usize, end: usize) -> Option<[Edit; 2]> {
    let sliced = slice.expr.span();
    let tail = source.get(sliced.end_offset as usize..end)?;
    let open = tail.find('[')?;
    let inside = tail.get(open + 1..)?.strip_suffix(']')?;
    let parts = parts(inside)?;
    let bracket = sliced.end_offset as usize + open;
    let arguments: String =
        parts.iter().map(|part| format!(", {}", if part.trim().is_empty() { "none" } else { part })).collect();
    Some([
        Edit { at: start, dropped: 0, text: format!("{SLICE}(") },
        Edit { at: bracket, dropped: end - bracket, text: format!("{arguments})") },
    ])
}

/// Splits at the two colons that are in no bracket and no string.
fn parts(inside: &str) -> Option<[&str; 3]> {
    let mut depth = 0_i32;
    let mut quote = None;
    let mut colons = Vec::new();
    for (at, char) in inside.char_indices() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(char),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ':') if depth == 0 => colons.push(at),
            _ => {}
        }
    }
    let [first, second] = *colons.as_slice() else { return None };
    Some([inside.get(..first)?, inside.get(first + 1..second)?, inside.get(second + 1..)?])
}

/// Whether a template has `{% generation %}` blocks.
pub(super) fn marks_generation(source: &str) -> bool {
    plain_scopes(source) != source
}

#[cfg(test)]
mod tests {
    use super::prepare;

    #[test]
    fn slices_with_a_step_become_calls_wherever_they_stand() {
        for (source, expected) in [
            ("{{ x[::-1] }}", "{{ __slice(x, none, none, -1) }}"),
            ("{{ x[::2] }}{{ x[1:] }}", "{{ x[::2] }}{{ x[1:] }}"),
            ("{{ a.b.c['d'][1:n:-1].e }}", "{{ __slice(a.b.c['d'], 1, n, -1).e }}"),
            ("{{ (a or b)[::-1] }}", "{{ __slice((a or b), none, none, -1) }}"),
            ("{{ (a or b).c.d[::-1] }}", "{{ __slice((a or b).c.d, none, none, -1) }}"),
            ("{{ f(x[::-1])[ : :step] }}", "{{ __slice(f(__slice(x, none, none, -1)), none, none, step) }}"),
            ("{{ x[::-1][::-1] }}", "{{ __slice(__slice(x, none, none, -1), none, none, -1) }}"),
            (
                "{% for m in messages[::-1] %}{% endfor %}",
                "{% for m in __slice(messages, none, none, -1) %}{% endfor %}",
            ),
            ("é{{ x[y[':']:{'a:': 1}['a:']:-1] }}", "é{{ __slice(x, y[':'], {'a:': 1}['a:'], -1) }}"),
        ] {
            assert_eq!(prepare(source).expect(source), expected);
        }
    }

    #[test]
    fn generation_blocks_become_scopes() {
        let source = "{%- generation -%}generation{% endgeneration %}{% if generation %}{% endif %}";
        assert_eq!(prepare(source).expect(source), "{%- with -%}generation{% endwith %}{% if generation %}{% endif %}");
    }
}
