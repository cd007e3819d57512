//! `'...' in text`, which templates ask of every message.
//!
//! The renderer's own search goes byte by byte; a long content takes longer for that than for all else.

use minijinja::machinery::ast::{BinOpKind, Expr};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value, tests};

use super::edit::{Edit, edited, first_offset};
use super::{Node, tree, walk};
use crate::tokens::template::error::TemplateError;

/// Filter that stands for `in` behind a literal. A function would be looked up in every scope first.
pub(in crate::tokens::template) const HOLDS: &str = "__holds";

/// `needle in value`.
pub(in crate::tokens::template) fn holds(state: &State, needle: &Value, value: &Value) -> Result<bool, Error> {
    match (value.kind(), value.as_str(), needle.as_str()) {
        (ValueKind::String, Some(text), Some(needle)) => Ok(found(text.as_bytes(), needle.as_bytes())),
        (ValueKind::Undefined | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map, ..) => {
            tests::is_in(state, needle, value)
        }
        _ => Err(Error::new(ErrorKind::InvalidOperation, "cannot look for something in this value")),
    }
}

fn found(text: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    memchr::memchr_iter(*first, text).any(|at| text.get(at..).is_some_and(|rest| rest.starts_with(needle)))
}

/// Turns `'...' in x` into filters where `x` is a name, or a lookup in one.
pub(super) fn needles_called(source: &str) -> Result<String, TemplateError> {
    let root = tree(source)?;
    let mut edits = Vec::new();
    walk(Node::Stmt(&root), &mut |node| {
        if let Node::Expr(Expr::BinOp(operation)) = node
            && matches!(operation.op, BinOpKind::In)
            && let Expr::Const(literal) = &operation.left
            && is_lookup(&operation.right)
        {
            let span = literal.span();
            let right = first_offset(&operation.right) as usize..operation.right.span().end_offset as usize;
            edits.extend(
                call_edits(source, span.start_offset as usize..span.end_offset as usize, right).into_iter().flatten(),
            );
        }
    });
    Ok(edited(source, edits))
}

fn is_lookup(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Var(_) => true,
        Expr::GetAttr(node) => is_lookup(&node.expr),
        Expr::GetItem(node) => is_lookup(&node.expr) && matches!(node.subscript_expr, Expr::Const(_)),
        _ => false,
    }
}

/// `None` when the places are not what they seem to be: brackets leave no trace in the tree.
fn call_edits(source: &str, left: std::ops::Range<usize>, right: std::ops::Range<usize>) -> Option<[Edit; 2]> {
    let literal = source.get(left.clone())?;
    let quoted = ['\'', '"']
        .into_iter()
        .any(|quote| literal.len() > 1 && literal.starts_with(quote) && literal.ends_with(quote));
    let between = source.get(left.end..right.start)?;
    let last = source.get(right.clone())?.chars().next_back()?;
    let next = source.get(right.end..)?.trim_start().chars().next()?;
    let ends = (last.is_ascii_alphanumeric() || matches!(last, '_' | ']')) && !matches!(next, '.' | '[' | '(' | '|');
    let whole = quoted && between.trim() == "in" && ends;
    whole.then(|| {
        [
            Edit { at: left.end, dropped: between.len(), text: format!("|{HOLDS}(") },
            Edit { at: right.end, dropped: 0, text: ")".to_owned() },
        ]
    })
}

#[cfg(test)]
mod checks {
    use super::{found, needles_called};

    #[test]
    fn literals_are_looked_for_by_a_call() {
        for (source, expected) in [
            ("{% if '</think>' in message.content %}", "{% if '</think>'|__holds(message.content) %}"),
            ("{{ \"a\" in x and not 'b' in y['c'] }}", "{{ \"a\"|__holds(x) and not 'b'|__holds(y['c']) }}"),
            ("{{ 'a' in x == y }}", "{{ 'a' in x == y }}"),
            ("{{ 'a' in x|trim }}{{ 'a' in x.f() }}", "{{ 'a' in x|trim }}{{ 'a' in x.f() }}"),
            ("{{ ('a') in x }}{{ 'a' in (x) }}", "{{ ('a') in x }}{{ 'a' in (x) }}"),
            ("{{ 'a' not in x }}{{ a in x }}{{ 1 in x }}", "{{ 'a' not in x }}{{ a in x }}{{ 1 in x }}"),
            ("{{ 'a' + 'b' in x }}{{ 'a' in x + y }}", "{{ 'a' + 'b' in x }}{{ 'a' in x + y }}"),
            ("é{{ ['a' in x, 'b' in x][0] }}", "é{{ ['a'|__holds(x), 'b'|__holds(x)][0] }}"),
        ] {
            let source = if source.starts_with("{%") { format!("{source}{{% endif %}}") } else { source.to_owned() };
            let made = needles_called(&source).expect("a template");
            assert_eq!(made.trim_end_matches("{% endif %}"), expected);
        }
    }

    #[test]
    fn found_is_what_contains_says() {
        let text = "<<<a<</thin</think>";
        for start in 0..text.len() {
            for end in start..=text.len() {
                let needle = text.get(start..end).expect("ASCII");
                assert!(found(text.as_bytes(), needle.as_bytes()));
                let other = format!("{needle}!");
                assert!(!found(text.as_bytes(), other.as_bytes()));
            }
        }
    }
}
