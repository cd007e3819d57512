//! What a template may not use, since it would not render as in Python. Every rule is written down here, so that a
//! template is refused when its model is loaded and never found out at a request.
//!
//! Filters, tests and methods that Jinja does not have either are let through: the engine fails on them as well.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{BinOpKind, CallArg, CallType, Expr, Stmt};

use super::nodes::{Node, walk};
use crate::tokens::template::error::TemplateError;

/// Filters of Jinja that are not here.
const FILTERS: &[&str] = &[
    "batch",
    "center",
    "e",
    "escape",
    "filesizeformat",
    "forceescape",
    "format",
    "groupby",
    "pprint",
    "random",
    "slice",
    "striptags",
    "truncate",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Tests of Jinja that are not here. Of letters' cases Python knows more than fits here.
const TESTS: &[&str] = &["escaped", "lower", "upper"];

/// Functions of Jinja that are not here.
const FUNCTIONS: &[&str] = &["cycler", "joiner", "lipsum"];

/// Methods of Python's strings, lists, dicts and numbers that are not here. Its classes of characters (`isalpha`, `isdigit`, ...) are those of
/// the Unicode version of the engine's Python, and none of Rust's; no template that is known asks for one.
const METHODS: &[&str] = &[
    "as_integer_ratio",
    "bit_length",
    "casefold",
    "conjugate",
    "decode",
    "encode",
    "expandtabs",
    "format_map",
    "fromkeys",
    "hex",
    "is_integer",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "istitle",
    "isupper",
    "maketrans",
    "to_bytes",
    "translate",
];

/// Methods whose positions (`start`, `end`) are not here.
const WITHOUT_POSITIONS: &[&str] = &["startswith", "endswith", "find", "rfind", "index", "rindex", "count"];

/// The first thing that is not supported.
pub(super) fn check(root: &Stmt<'_>, source: &str) -> Result<(), TemplateError> {
    let safe_names = safe_names(root);
    let mut found: Option<(String, u32)> = None;
    walk(Node::Stmt(root), &mut |node| {
        if found.is_none() {
            found = problem(node, &safe_names).map(|what| (what, line(node)));
        }
    });
    if found.is_none() && source.contains("varargs") {
        found = Some(("`varargs`".to_owned(), 0));
    }
    match found {
        Some((what, line)) => Err(TemplateError::Unsupported { what, line }),
        None => Ok(()),
    }
}

fn line(node: Node<'_, '_>) -> u32 {
    match node {
        Node::Expr(expr) => u32::from(expr.span().start_line),
        Node::Stmt(Stmt::AutoEscape(node)) => u32::from(node.span().start_line),
        Node::Stmt(_) => 0,
    }
}

fn problem(node: Node<'_, '_>, safe_names: &BTreeSet<&str>) -> Option<String> {
    match node {
        Node::Stmt(Stmt::AutoEscape(_)) => Some("`autoescape`".to_owned()),
        Node::Expr(Expr::Filter(filter)) if FILTERS.contains(&filter.name) => Some(format!("filter `{}`", filter.name)),
        Node::Expr(Expr::Test(test)) if TESTS.contains(&test.name) => Some(format!("test `{}`", test.name)),
        Node::Expr(Expr::Call(call)) => match call.identify_call() {
            CallType::Function(name) if FUNCTIONS.contains(&name) => Some(format!("function `{name}`")),
            CallType::Method(_, name) if METHODS.contains(&name) => Some(format!("method `{name}`")),
            CallType::Method(_, name) if WITHOUT_POSITIONS.contains(&name) && call.args.len() > 1 => {
                Some(format!("positions in `{name}`"))
            }
            CallType::Method(subject, "format") => format_problem(subject, &call.args),
            _ => None,
        },
        Node::Expr(Expr::BinOp(op)) => match op.op {
            BinOpKind::Rem if is_text(&op.left) => Some("`%` on a string".to_owned()),
            BinOpKind::Add if is_safe(&op.left, safe_names) || is_safe(&op.right, safe_names) => {
                Some("`safe` text in an addition, which Jinja escapes".to_owned())
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_text(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(constant) if constant.value.as_str().is_some())
}

/// Format strings must be known and without specifications.
fn format_problem(subject: &Expr<'_>, _args: &[CallArg<'_>]) -> Option<String> {
    let Expr::Const(constant) = subject else { return None };
    let template = constant.value.as_str()?;
    let fields = template.split('{').skip(1).filter_map(|field| field.split('}').next());
    fields.into_iter().any(|field| field.contains(':')).then(|| "format specifications".to_owned())
}

/// Whether an expression may be marked as safe: the filter's result, or a variable that was given one.
fn is_safe(expr: &Expr<'_>, safe_names: &BTreeSet<&str>) -> bool {
    match expr {
        Expr::Filter(filter) => match filter.name {
            "safe" => true,
            // These keep the mark of what they are applied to.
            "trim" | "string" | "upper" | "lower" | "default" | "indent" | "replace" => {
                filter.expr.as_ref().is_some_and(|inner| is_safe(inner, safe_names))
            }
            _ => false,
        },
        Expr::Var(var) => safe_names.contains(var.id),
        Expr::IfExpr(node) => {
            is_safe(&node.true_expr, safe_names)
                || node.false_expr.as_ref().is_some_and(|other| is_safe(other, safe_names))
        }
        _ => false,
    }
}

fn safe_names<'a>(root: &Stmt<'a>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    walk(Node::Stmt(root), &mut |node| {
        if let Node::Stmt(Stmt::Set(set)) = node
            && let Expr::Var(target) = &set.target
            && is_safe(&set.expr, &names)
        {
            names.insert(target.id);
        }
    });
    names
}

#[cfg(test)]
mod tests {
    use super::FILTERS;
    use crate::tokens::template::environment::environment;

    /// All filters of Jinja 3.1.
    const JINJA: &[&str] = &[
        "abs",
        "attr",
        "batch",
        "capitalize",
        "center",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "filesizeformat",
        "first",
        "float",
        "forceescape",
        "format",
        "groupby",
        "indent",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "pprint",
        "random",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "safe",
        "select",
        "selectattr",
        "slice",
        "sort",
        "string",
        "striptags",
        "sum",
        "title",
        "tojson",
        "trim",
        "truncate",
        "unique",
        "upper",
        "urlencode",
        "urlize",
        "wordcount",
        "wordwrap",
        "xmlattr",
    ];
    /// All tests of Jinja 3.1.
    const JINJA_TESTS: &[&str] = &[
        "boolean",
        "callable",
        "defined",
        "divisibleby",
        "eq",
        "equalto",
        "escaped",
        "even",
        "false",
        "filter",
        "float",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "integer",
        "iterable",
        "le",
        "lessthan",
        "lower",
        "lt",
        "mapping",
        "ne",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "test",
        "true",
        "undefined",
        "upper",
    ];

    #[test]
    fn every_filter_and_test_of_jinja_is_there_or_refused() {
        let env = environment();
        let has = |kind: &str, name: &str| {
            env.render_str(&format!("{{{{ '{name}' is {kind} }}}}"), ()).expect(name) == "True"
        };
        for name in JINJA {
            assert_ne!(has("filter", name), FILTERS.contains(name), "{name}");
        }
        for name in JINJA_TESTS {
            assert_ne!(has("test", name), super::TESTS.contains(name), "{name}");
        }
    }
}
