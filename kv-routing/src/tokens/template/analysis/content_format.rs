//! vLLM's rule for the content format, on minijinja's tree.
//!
//! Follow the variables that hold `messages`, the loop variables over those, and look for a loop over the `content` of
//! one of them, over a macro's parameter that is given such a content, or over a plain `content` outside of macros.

use std::collections::{BTreeSet, VecDeque};

use minijinja::machinery::ast::{CallArg, Expr, ForLoop, Macro, Stmt};

use super::nodes::{Node, walk};

/// The rule. A construct that vLLM's own version stumbles over (a loop with two targets, an assignment to an attribute)
/// counts as no loop, as it does there.
pub(super) fn loops_over_content(root: &Stmt<'_>) -> bool {
    find(root).unwrap_or(false)
}

/// What vLLM's version asserts and this template breaks.
struct NotAName;

fn name<'a>(target: &Expr<'a>) -> Result<&'a str, NotAName> {
    match target {
        Expr::Var(var) => Ok(var.id),
        _ => Err(NotAName),
    }
}

fn find(root: &Stmt<'_>) -> Result<bool, NotAName> {
    let items = message_items(root)?;
    let is_content = |expr: &Expr<'_>| items.iter().any(|item| reads(expr, item, Some("content")));
    let macros = macro_loops(root, &is_content);
    for each in loops(root) {
        let plain = match &each.iter {
            Expr::Var(var) => Some(var.id),
            _ => None,
        };
        let in_macro = macros.iter().find(|one| one.loops.contains(&std::ptr::from_ref(each).addr()));
        let by_parameter = plain.is_some_and(|id| in_macro.is_some_and(|one| one.content_params.contains(id)));
        let by_name = plain == Some("content") && in_macro.is_none();
        if is_content(&each.iter) || by_parameter || by_name {
            name(&each.target)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `expr` is the variable (or the `key` of it), maybe filtered, tested or sliced.
fn reads(expr: &Expr<'_>, variable: &str, key: Option<&str>) -> bool {
    match expr {
        Expr::Filter(node) => node.expr.as_ref().is_some_and(|inner| reads(inner, variable, key)),
        Expr::Test(node) => reads(&node.expr, variable, key),
        Expr::Slice(node) => reads(&node.expr, variable, key),
        Expr::Var(var) => key.is_none() && var.id == variable,
        Expr::GetAttr(node) => key == Some(node.name) && is_variable(&node.expr, variable),
        Expr::GetItem(node) => {
            let constant = match &node.subscript_expr {
                Expr::Const(constant) => constant.value.as_str(),
                _ => None,
            };
            key.is_some() && constant == key && is_variable(&node.expr, variable)
        }
        _ => false,
    }
}

fn is_variable(expr: &Expr<'_>, variable: &str) -> bool {
    matches!(expr, Expr::Var(var) if var.id == variable)
}

/// Names that hold the messages or some of them.
fn message_lists<'a>(root: &Stmt<'a>) -> Result<Vec<&'a str>, NotAName> {
    let mut assignments: Vec<(&Expr<'a>, &Expr<'a>)> = Vec::new();
    walk(Node::Stmt(root), &mut |node| {
        if let Node::Stmt(Stmt::Set(set)) = node {
            assignments.push((&set.target, &set.expr));
        }
    });
    let mut names = vec!["messages"];
    let mut queue = VecDeque::from(["messages"]);
    while let Some(known) = queue.pop_front() {
        for (target, value) in &assignments {
            if reads(value, known, None) {
                let target = name(target)?;
                if target != known && !names.contains(&target) {
                    queue.push_back(target);
                }
                names.push(target);
            }
        }
    }
    Ok(names)
}

/// Names of loop variables over those.
fn message_items<'a>(root: &Stmt<'a>) -> Result<Vec<&'a str>, NotAName> {
    let lists = message_lists(root)?;
    let over_messages = |each: &&ForLoop<'a>| lists.iter().any(|list| reads(&each.iter, list, None));
    loops(root).into_iter().filter(over_messages).map(|each| name(&each.target)).collect()
}

fn loops<'t, 'a>(root: &'t Stmt<'a>) -> Vec<&'t ForLoop<'a>> {
    let mut found = Vec::new();
    walk(Node::Stmt(root), &mut |node| {
        if let Node::Stmt(Stmt::ForLoop(each)) = node {
            found.push(&**each);
        }
    });
    found
}

/// Loops of one macro, and its parameters that get a content somewhere.
struct MacroLoops<'a> {
    loops: BTreeSet<usize>,
    content_params: BTreeSet<&'a str>,
}

fn macro_loops<'a>(root: &Stmt<'a>, is_content: &dyn Fn(&Expr<'_>) -> bool) -> Vec<MacroLoops<'a>> {
    let mut found = Vec::new();
    walk(Node::Stmt(root), &mut |node| {
        let Node::Stmt(Stmt::Macro(one)) = node else { return };
        let mut addresses = BTreeSet::new();
        for stmt in &one.body {
            walk(Node::Stmt(stmt), &mut |inner| {
                if let Node::Stmt(Stmt::ForLoop(each)) = inner {
                    addresses.insert(std::ptr::from_ref::<ForLoop<'_>>(each).addr());
                }
            });
        }
        found.push(MacroLoops { loops: addresses, content_params: content_params(root, one, is_content) });
    });
    found
}

fn content_params<'a>(root: &Stmt<'a>, one: &Macro<'a>, is_content: &dyn Fn(&Expr<'_>) -> bool) -> BTreeSet<&'a str> {
    let params: Vec<&'a str> = one.args.iter().filter_map(|arg| name(arg).ok()).collect();
    let mut content = BTreeSet::new();
    walk(Node::Stmt(root), &mut |node| {
        let Node::Expr(Expr::Call(call)) = node else { return };
        if !is_variable(&call.expr, one.name) {
            return;
        }
        for (index, arg) in call.args.iter().enumerate() {
            match arg {
                CallArg::Pos(value) if is_content(value) => content.extend(params.get(index).copied()),
                CallArg::Kwarg(name, value) if is_content(value) => {
                    content.extend(params.iter().find(|param| *param == name))
                }
                _ => {}
            }
        }
    });
    content
}
