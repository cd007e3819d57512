//! Loops that look for something and go on when they have found it.
//!
//! Jinja itself cannot leave a loop, so templates keep a flag: `{% for m in messages[::-1] %}{% if ns.flag and ... %}{% set
//! ns.flag = false %}...{% endif %}{% endfor %}`. What is left of such a loop changes nothing, but takes longer than what is looked for.

use minijinja::machinery::ast::{BinOpKind, Expr, ForLoop, IfCond, Set, Stmt};

use super::edit::{Edit, edited};
use super::{Node, tree, walk};
use crate::tokens::template::error::TemplateError;

/// Leaves loops where their flag is put down.
pub(super) fn searches_ended(source: &str) -> Result<String, TemplateError> {
    let root = tree(source)?;
    let mut edits = Vec::new();
    walk(Node::Stmt(&root), &mut |node| {
        if let Node::Stmt(Stmt::ForLoop(node)) = node
            && let Some(at) = end_of_search(node).and_then(|end| behind_tag(source, end))
        {
            edits.push(Edit { at, dropped: 0, text: "{% break %}".to_owned() });
        }
    });
    Ok(edited(source, edits))
}

/// Where the last tag ends that runs when the search is over, if the loop is one and prints nothing.
fn end_of_search(node: &ForLoop<'_>) -> Option<usize> {
    let (Stmt::IfCond(found), before) = node.body.split_last()? else { return None };
    let plain = !node.recursive && node.filter_expr.is_none() && node.else_body.is_empty();
    let Expr::Var(round) = &node.target else { return None };
    let mut names = vec![round.id];
    for stmt in before {
        let Stmt::Set(set) = stmt else { return None };
        let Expr::Var(name) = &set.target else { return None };
        names.push(name.id);
        if !is_steady(&set.expr) {
            return None;
        }
    }
    if !plain || !found.false_body.is_empty() || !puts_flag_down(found, &names) {
        return None;
    }
    let Some(Stmt::Set(last)) = found.true_body.last() else { return None };
    Some(last.span().end_offset as usize)
}

/// Whether the first thing asked for is a namespace's flag, and the body clears it and only sets things. The namespace is the same in every
/// round: none of `names`, which are set in each.
fn puts_flag_down(found: &IfCond<'_>, names: &[&str]) -> bool {
    let Some((namespace, flag)) = attribute(first_asked(&found.expr)) else { return false };
    if names.contains(&namespace) {
        return false;
    }
    let sets: Option<Vec<&Set<'_>>> =
        found.true_body.iter().map(|stmt| if let Stmt::Set(set) = stmt { Some(&**set) } else { None }).collect();
    let Some(sets) = sets else { return false };
    let mut of_flag = sets.iter().filter(|set| attribute(&set.target) == Some((namespace, flag)));
    let down = of_flag.next().is_some_and(|set| matches!(&set.expr, Expr::Const(value) if !value.value.is_true()));
    // Another name may be the same namespace.
    let same_namespace = sets.iter().all(|set| match &set.target {
        Expr::Var(name) => name.id != namespace,
        target => attribute(target).is_some_and(|(of, _)| of == namespace),
    });
    down && of_flag.next().is_none() && same_namespace
}

/// Leftmost operand of a chain of `and`.
fn first_asked<'t, 'a>(expr: &'t Expr<'a>) -> &'t Expr<'a> {
    match expr {
        Expr::BinOp(operation) if matches!(operation.op, BinOpKind::ScAnd) => first_asked(&operation.left),
        other => other,
    }
}

/// `name.attribute`.
fn attribute<'a>(expr: &Expr<'a>) -> Option<(&'a str, &'a str)> {
    match expr {
        Expr::GetAttr(node) => match &node.expr {
            Expr::Var(name) => Some((name.id, node.name)),
            _ => None,
        },
        _ => None,
    }
}

fn is_name(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Var(_))
}

/// Whether an expression that has a value once has one in every round: sums of constants, lengths and the loop's counters.
fn is_steady(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::Filter(filter) => {
            filter.name == "length" && filter.args.is_empty() && filter.expr.as_ref().is_some_and(is_name)
        }
        Expr::BinOp(operation) => {
            matches!(operation.op, BinOpKind::Add | BinOpKind::Sub)
                && is_steady(&operation.left)
                && is_steady(&operation.right)
        }
        other => matches!(attribute(other), Some(("loop", "index" | "index0" | "revindex" | "revindex0"))),
    }
}

/// The place behind the tag whose statement ends at `end`.
fn behind_tag(source: &str, end: usize) -> Option<usize> {
    let tail = source.get(end..)?;
    let close = tail.trim_start().trim_start_matches(['-', '+']);
    close.starts_with("%}").then(|| end + (tail.len() - close.len()) + "%}".len())
}

#[cfg(test)]
mod tests {
    use super::searches_ended;

    const SEARCH: &str = "{% for m in x[::-1] %}{%- set i = (x|length - 1) - loop.index0 %}\n  {%- if ns.on and m.role == 'user' and \
                          not(m.c.startswith('a')) %}\n{%- set ns.on = false %}\n{%- set ns.last = i -%}\n {% endif %}{% endfor %}";

    #[test]
    fn a_search_is_left_where_its_flag_is_put_down() {
        let expected = SEARCH.replace("= i -%}", "= i -%}{% break %}");
        assert_eq!(searches_ended(SEARCH).expect(SEARCH), expected);
        let other = "{% for m in x %}{% if ns.on %}{% set ns.on = '' %}{% endif %}{% endfor %}";
        assert_eq!(searches_ended(other).expect(other), other.replace("'' %}", "'' %}{% break %}"));
    }

    #[test]
    fn a_loop_with_something_left_to_do_is_not_left() {
        for (from, to) in [
            ("{% endfor", "-{% endfor"),
            ("{% endif", "-{% endif"),
            ("{%- set ns.last", "{{ m }}{%- set ns.last"),
            ("ns.on = false", "ns.on = true"),
            ("ns.on = false", "ns.off = false"),
            ("ns.last = i", "ns.on = i"),
            ("ns.last = i", "ns = i"),
            ("ns.last = i", "alias.on = true"),
            ("for m in", "for ns in"),
            ("set i =", "set ns ="),
            ("ns.on and", "ns.on or"),
            ("ns.on and", "m.on and"),
            ("(x|length - 1)", "m.place"),
            ("(x|length - 1)", "(x|length / m)"),
            ("for m in", "for m, n in"),
            ("x[::-1] %}", "x[::-1] if m %}"),
            ("{% endif", "{% else %}{% set a = 1 %}{% endif"),
        ] {
            let source = SEARCH.replace(from, to);
            assert_ne!(source, SEARCH);
            assert_eq!(searches_ended(&source).expect(&source), source, "{to}");
        }
    }
}
