//! Walking a template's syntax tree.

use minijinja::machinery::ast::{CallArg, Expr, Stmt};

/// A statement or an expression.
#[derive(Clone, Copy)]
pub(in crate::tokens::template) enum Node<'t, 'a> {
    /// A statement.
    Stmt(&'t Stmt<'a>),
    /// An expression.
    Expr(&'t Expr<'a>),
}

/// Visits a node and everything below it, parents first, in the order of the source.
pub(in crate::tokens::template) fn walk<'t, 'a>(node: Node<'t, 'a>, visit: &mut dyn FnMut(Node<'t, 'a>)) {
    visit(node);
    match node {
        Node::Stmt(stmt) => walk_stmt(stmt, visit),
        Node::Expr(expr) => walk_expr(expr, visit),
    }
}

fn stmts<'t, 'a>(body: &'t [Stmt<'a>], visit: &mut dyn FnMut(Node<'t, 'a>)) {
    for stmt in body {
        walk(Node::Stmt(stmt), visit);
    }
}

fn exprs<'t, 'a: 't>(list: impl IntoIterator<Item = &'t Expr<'a>>, visit: &mut dyn FnMut(Node<'t, 'a>)) {
    for expr in list {
        walk(Node::Expr(expr), visit);
    }
}

/// The expression of a call's argument.
pub(super) fn argument<'t, 'a>(arg: &'t CallArg<'a>) -> &'t Expr<'a> {
    match arg {
        CallArg::Pos(expr) | CallArg::Kwarg(_, expr) | CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => expr,
    }
}

fn walk_stmt<'t, 'a>(stmt: &'t Stmt<'a>, visit: &mut dyn FnMut(Node<'t, 'a>)) {
    match stmt {
        Stmt::Template(node) => stmts(&node.children, visit),
        Stmt::EmitExpr(node) => exprs([&node.expr], visit),
        Stmt::ForLoop(node) => {
            exprs([&node.target, &node.iter], visit);
            exprs(&node.filter_expr, visit);
            stmts(&node.body, visit);
            stmts(&node.else_body, visit);
        }
        Stmt::IfCond(node) => {
            exprs([&node.expr], visit);
            stmts(&node.true_body, visit);
            stmts(&node.false_body, visit);
        }
        Stmt::WithBlock(node) => {
            for (target, value) in &node.assignments {
                exprs([target, value], visit);
            }
            stmts(&node.body, visit);
        }
        Stmt::Set(node) => exprs([&node.target, &node.expr], visit),
        Stmt::SetBlock(node) => {
            exprs([&node.target], visit);
            exprs(&node.filter, visit);
            stmts(&node.body, visit);
        }
        Stmt::AutoEscape(node) => {
            exprs([&node.enabled], visit);
            stmts(&node.body, visit);
        }
        Stmt::FilterBlock(node) => {
            exprs([&node.filter], visit);
            stmts(&node.body, visit);
        }
        Stmt::Macro(node) => {
            exprs(node.args.iter().chain(&node.defaults), visit);
            stmts(&node.body, visit);
        }
        Stmt::CallBlock(node) => {
            exprs([&node.call.expr], visit);
            exprs(node.call.args.iter().map(argument), visit);
            exprs(node.macro_decl.args.iter().chain(&node.macro_decl.defaults), visit);
            stmts(&node.macro_decl.body, visit);
        }
        Stmt::Do(node) => {
            exprs([&node.call.expr], visit);
            exprs(node.call.args.iter().map(argument), visit);
        }
        Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
    }
}

fn walk_expr<'t, 'a>(expr: &'t Expr<'a>, visit: &mut dyn FnMut(Node<'t, 'a>)) {
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(node) => {
            exprs([&node.expr], visit);
            exprs(node.start.iter().chain(&node.stop).chain(&node.step), visit);
        }
        Expr::UnaryOp(node) => exprs([&node.expr], visit),
        Expr::BinOp(node) => exprs([&node.left, &node.right], visit),
        Expr::Compare(node) => {
            exprs([&node.expr], visit);
            exprs(node.ops.iter().map(|op| &op.expr), visit);
        }
        Expr::IfExpr(node) => {
            exprs([&node.test_expr, &node.true_expr], visit);
            exprs(&node.false_expr, visit);
        }
        Expr::Filter(node) => {
            exprs(&node.expr, visit);
            exprs(node.args.iter().map(argument), visit);
        }
        Expr::Test(node) => {
            exprs([&node.expr], visit);
            exprs(node.args.iter().map(argument), visit);
        }
        Expr::GetAttr(node) => exprs([&node.expr], visit),
        Expr::GetItem(node) => exprs([&node.expr, &node.subscript_expr], visit),
        Expr::Call(node) => {
            exprs([&node.expr], visit);
            exprs(node.args.iter().map(argument), visit);
        }
        Expr::List(node) => exprs(&node.items, visit),
        Expr::Map(node) => exprs(node.keys.iter().chain(&node.values), visit),
    }
}
