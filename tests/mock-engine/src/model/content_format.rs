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
    let lists = found.aliases("messages");
    let messages: Vec<&str> = found
        .loops
        .iter()
        .filter(|one| lists.iter().any(|list| reads(one.iter, list, None)))
        .map(|one| one.target)
        .collect();
    let is_content = |expr: &ast::Expr<'_>| messages.iter().any(|message| reads(expr, message, Some("content")));
    let parts = found.loops.iter().any(|one| is_content(one.iter) || found.loops_over_content(one, &is_content));
    Ok(if parts { ContentFormat::Parts } else { ContentFormat::Text })
}

/// A loop with a plain target, and the macro it is in.
struct Loop<'t, 's> {
    target: &'s str,
    iter: &'t ast::Expr<'s>,
    within: Option<&'t ast::Macro<'s>>,
}

/// Loops, assignments of plain names, and calls, wherever they are.
#[derive(Default)]
struct Found<'t, 's> {
    loops: Vec<Loop<'t, 's>>,
    assignments: Vec<(&'s str, &'t ast::Expr<'s>)>,
    calls: Vec<&'t ast::Call<'s>>,
    within: Option<&'t ast::Macro<'s>>,
}

impl<'t, 's> Found<'t, 's> {
    /// `name` and every name assigned from it, directly or through others.
    fn aliases(&self, name: &'s str) -> Vec<&'s str> {
        let mut names = vec![name];
        let mut next = 0;
        while let Some(name) = names.get(next).copied() {
            next += 1;
            let targets = self.assignments.iter().filter(|(_, expr)| reads(expr, name, None));
            let fresh: Vec<&str> = targets.map(|(target, _)| *target).filter(|name| !names.contains(name)).collect();
            names.extend(fresh);
        }
        names
    }

    /// Whether a loop goes over a variable that holds content: in a macro, a parameter that some call fills with it;
    /// elsewhere, a variable of that name.
    fn loops_over_content(&self, one: &Loop<'t, 's>, is_content: &dyn Fn(&ast::Expr<'_>) -> bool) -> bool {
        let ast::Expr::Var(variable) = one.iter else { return false };
        let Some(within) = one.within else { return variable.id == "content" };
        let parameter = within.args.iter().position(|arg| matches!(arg, ast::Expr::Var(arg) if arg.id == variable.id));
        let Some(parameter) = parameter else { return false };
        let calls = self.calls.iter().filter(|call| is_variable(&call.expr, within.name));
        calls.flat_map(|call| call.args.iter().enumerate()).any(|(index, arg)| match arg {
            ast::CallArg::Pos(expr) => index == parameter && is_content(expr),
            ast::CallArg::Kwarg(name, expr) => *name == variable.id && is_content(expr),
            ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => false,
        })
    }

    fn visit(&mut self, statement: &'t ast::Stmt<'s>) {
        match statement {
            ast::Stmt::Template(inner) => self.visit_all(&inner.children),
            ast::Stmt::EmitExpr(inner) => self.visit_expr(&inner.expr),
            ast::Stmt::ForLoop(inner) => {
                if let ast::Expr::Var(target) = &inner.target {
                    self.loops.push(Loop { target: target.id, iter: &inner.iter, within: self.within });
                }
                self.visit_expr(&inner.iter);
                self.visit_all(&inner.body);
                self.visit_all(&inner.else_body);
            }
            ast::Stmt::IfCond(inner) => {
                self.visit_expr(&inner.expr);
                self.visit_all(&inner.true_body);
                self.visit_all(&inner.false_body);
            }
            ast::Stmt::Set(inner) => {
                if let ast::Expr::Var(target) = &inner.target {
                    self.assignments.push((target.id, &inner.expr));
                }
                self.visit_expr(&inner.expr);
            }
            ast::Stmt::WithBlock(inner) => {
                inner.assignments.iter().for_each(|(_, expr)| self.visit_expr(expr));
                self.visit_all(&inner.body);
            }
            ast::Stmt::SetBlock(inner) => self.visit_all(&inner.body),
            ast::Stmt::AutoEscape(inner) => self.visit_all(&inner.body),
            ast::Stmt::FilterBlock(inner) => self.visit_all(&inner.body),
            ast::Stmt::Macro(inner) => {
                let outer = self.within.replace(inner);
                self.visit_all(&inner.body);
                self.within = outer;
            }
            ast::Stmt::CallBlock(inner) => self.visit_all(&inner.macro_decl.body),
            ast::Stmt::Do(inner) => self.visit_call(&inner.call),
            _ => {}
        }
    }

    fn visit_all(&mut self, statements: &'t [ast::Stmt<'s>]) {
        statements.iter().for_each(|statement| self.visit(statement));
    }

    fn visit_call(&mut self, call: &'t ast::Call<'s>) {
        self.calls.push(call);
        self.visit_expr(&call.expr);
        self.visit_args(&call.args);
    }

    fn visit_args(&mut self, args: &'t [ast::CallArg<'s>]) {
        for arg in args {
            match arg {
                ast::CallArg::Pos(expr)
                | ast::CallArg::Kwarg(_, expr)
                | ast::CallArg::PosSplat(expr)
                | ast::CallArg::KwargSplat(expr) => self.visit_expr(expr),
            }
        }
    }

    fn visit_expr(&mut self, expr: &'t ast::Expr<'s>) {
        match expr {
            ast::Expr::Var(_) | ast::Expr::Const(_) => {}
            ast::Expr::Slice(inner) => self.visit_expr(&inner.expr),
            ast::Expr::UnaryOp(inner) => self.visit_expr(&inner.expr),
            ast::Expr::BinOp(inner) => {
                self.visit_expr(&inner.left);
                self.visit_expr(&inner.right);
            }
            ast::Expr::Compare(inner) => {
                self.visit_expr(&inner.expr);
                inner.ops.iter().for_each(|op| self.visit_expr(&op.expr));
            }
            ast::Expr::IfExpr(inner) => {
                self.visit_expr(&inner.test_expr);
                self.visit_expr(&inner.true_expr);
                inner.false_expr.iter().for_each(|expr| self.visit_expr(expr));
            }
            ast::Expr::Filter(inner) => {
                inner.expr.iter().for_each(|expr| self.visit_expr(expr));
                self.visit_args(&inner.args);
            }
            ast::Expr::Test(inner) => {
                self.visit_expr(&inner.expr);
                self.visit_args(&inner.args);
            }
            ast::Expr::GetAttr(inner) => self.visit_expr(&inner.expr),
            ast::Expr::GetItem(inner) => {
                self.visit_expr(&inner.expr);
                self.visit_expr(&inner.subscript_expr);
            }
            ast::Expr::Call(inner) => self.visit_call(inner),
            ast::Expr::List(inner) => inner.items.iter().for_each(|item| self.visit_expr(item)),
            ast::Expr::Map(inner) => inner.keys.iter().chain(&inner.values).for_each(|item| self.visit_expr(item)),
        }
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
