//! Whether a template wants message content as a string or as a list of parts: vLLM's rule, which looks in the
//! template for a loop over a message's content.

use minijinja::machinery::{WhitespaceConfig, ast, parse};
use minijinja::syntax::SyntaxConfig;

/// The form in which content reaches the template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentFormat {
    /// One string; text parts are joined by newlines.
    Text,
    /// A list of `{"type": "text", "text": ...}`.
    Parts,
}

/// The form `source` wants.
pub(super) fn detect(source: &str) -> Result<ContentFormat, minijinja::Error> {
    let whitespace = WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };
    let template = parse(source, "chat", SyntaxConfig::default(), whitespace)?;
    let mut found = Found::default();
    found.visit(&template);
    let mut lists = vec!["messages"];
    extend_aliases(&mut lists, &found.assignments, None);
    let mut messages: Vec<&str> = found
        .loops
        .iter()
        .filter(|(_, iter)| lists.iter().any(|list| reads(iter, list, None)))
        .map(|(target, _)| *target)
        .collect();
    let loops_over = |names: &[&str], key: Option<&str>| {
        found.loops.iter().any(|(_, iter)| names.iter().any(|name| reads(iter, name, key)))
    };
    messages.sort_unstable();
    messages.dedup();
    let mut contents = Vec::new();
    for (target, expression) in &found.assignments {
        if messages.iter().any(|message| reads(expression, message, Some("content"))) {
            contents.push(*target);
        }
    }
    let parts = loops_over(&messages, Some("content")) || loops_over(&contents, None);
    Ok(if parts { ContentFormat::Parts } else { ContentFormat::Text })
}

/// Loops and assignments of plain names, wherever they are.
#[derive(Default)]
struct Found<'t, 's> {
    loops: Vec<(&'s str, &'t ast::Expr<'s>)>,
    assignments: Vec<(&'s str, &'t ast::Expr<'s>)>,
}

impl<'t, 's> Found<'t, 's> {
    fn visit(&mut self, statement: &'t ast::Stmt<'s>) {
        match statement {
            ast::Stmt::Template(inner) => self.visit_all(&inner.children),
            ast::Stmt::ForLoop(inner) => {
                if let ast::Expr::Var(target) = &inner.target {
                    self.loops.push((target.id, &inner.iter));
                }
                self.visit_all(&inner.body);
                self.visit_all(&inner.else_body);
            }
            ast::Stmt::IfCond(inner) => {
                self.visit_all(&inner.true_body);
                self.visit_all(&inner.false_body);
            }
            ast::Stmt::Set(inner) => {
                if let ast::Expr::Var(target) = &inner.target {
                    self.assignments.push((target.id, &inner.expr));
                }
            }
            ast::Stmt::WithBlock(inner) => self.visit_all(&inner.body),
            ast::Stmt::SetBlock(inner) => self.visit_all(&inner.body),
            ast::Stmt::AutoEscape(inner) => self.visit_all(&inner.body),
            ast::Stmt::FilterBlock(inner) => self.visit_all(&inner.body),
            ast::Stmt::Block(inner) => self.visit_all(&inner.body),
            ast::Stmt::Macro(inner) => self.visit_all(&inner.body),
            ast::Stmt::CallBlock(inner) => self.visit_all(&inner.macro_decl.body),
            _ => {}
        }
    }

    fn visit_all(&mut self, statements: &'t [ast::Stmt<'s>]) {
        statements.iter().for_each(|statement| self.visit(statement));
    }
}

/// Adds the names assigned from one of `names`, until nothing new appears.
fn extend_aliases<'s>(names: &mut Vec<&'s str>, assignments: &[(&'s str, &ast::Expr<'s>)], key: Option<&str>) {
    loop {
        let fresh: Vec<&str> = assignments
            .iter()
            .filter(|(target, expression)| {
                !names.contains(target) && names.iter().any(|name| reads(expression, name, key))
            })
            .map(|(target, _)| *target)
            .collect();
        if fresh.is_empty() {
            return;
        }
        names.extend(fresh);
    }
}

/// Whether `expression` is `name` or `name[key]`, possibly through filters, tests and slices.
fn reads(expression: &ast::Expr<'_>, name: &str, key: Option<&str>) -> bool {
    match expression {
        ast::Expr::Filter(inner) => inner.expr.as_ref().is_some_and(|expr| reads(expr, name, key)),
        ast::Expr::Test(inner) => reads(&inner.expr, name, key),
        ast::Expr::Slice(inner) => reads(&inner.expr, name, key),
        ast::Expr::Var(inner) => key.is_none() && inner.id == name,
        ast::Expr::GetAttr(inner) => key == Some(inner.name) && is_variable(&inner.expr, name),
        ast::Expr::GetItem(inner) => {
            let index = inner.subscript_expr.as_const();
            key.is_some() && index.as_ref().and_then(|value| value.as_str()) == key && is_variable(&inner.expr, name)
        }
        _ => false,
    }
}

fn is_variable(expression: &ast::Expr<'_>, name: &str) -> bool {
    matches!(expression, ast::Expr::Var(inner) if inner.id == name)
}
