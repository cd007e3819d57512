//! Slices with a step.

use minijinja::machinery::ast::{Expr, Slice};

use super::edit::{Edit, edited, first_offset};
use super::level::split_outer;
use crate::tokens::template::analysis::{Node, tree, walk};
use crate::tokens::template::error::TemplateError;

/// Function that stands for slices with a step; see [`slice`](crate::tokens::template::slice).
pub(in crate::tokens::template) const SLICE: &str = "__slice";

/// Replaces `x[a:b:c]` by a function call, unless the step is a positive constant: minijinja's own slicing backwards
/// panics on an empty value.
pub(super) fn stepped_slices_called(source: &str) -> Result<String, TemplateError> {
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
    Ok(edited(source, edits))
}

fn call_edits(source: &str, slice: &Slice<'_>, start: usize, end: usize) -> Option<[Edit; 2]> {
    let sliced = slice.expr.span();
    let tail = source.get(sliced.end_offset as usize..end)?;
    let open = tail.find('[')?;
    let inside = tail.get(open + 1..)?.strip_suffix(']')?;
    let parts = split_outer(inside, ':');
    if parts.len() != 3 {
        return None;
    }
    let bracket = sliced.end_offset as usize + open;
    let arguments: String =
        parts.iter().map(|part| format!(", {}", if part.trim().is_empty() { "none" } else { part })).collect();
    Some([
        Edit { at: start, dropped: 0, text: format!("{SLICE}(") },
        Edit { at: bracket, dropped: end - bracket, text: format!("{arguments})") },
    ])
}

#[cfg(test)]
mod tests {
    use super::stepped_slices_called;

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
            assert_eq!(stepped_slices_called(source).expect(source), expected);
        }
    }
}
