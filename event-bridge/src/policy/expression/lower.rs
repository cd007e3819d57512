//! Syntax tree to instructions, checking types on the way.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use kv_routing::policy::program::{Binary, Op, Unary, Variable};

use super::ExpressionError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Truth,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Truth => "a truth value",
        }
    }
}

struct Lowering<'a> {
    text: &'a str,
    source: &'a SourceInfo,
    ops: Vec<Op>,
}

/// Instructions of an expression that gives a number.
pub(super) fn number(tree: &IdedExpr, text: &str, source: &SourceInfo) -> Result<Vec<Op>, ExpressionError> {
    let mut lowering = Lowering { text, source, ops: Vec::new() };
    lowering.expect(tree, Type::Number)?;
    Ok(lowering.ops)
}

impl Lowering<'_> {
    fn expect(&mut self, tree: &IdedExpr, wanted: Type) -> Result<(), ExpressionError> {
        let found = self.lower(tree)?;
        if found == wanted {
            Ok(())
        } else {
            Err(self.error(tree.id, format!("this is {}, {} is needed here", found.name(), wanted.name())))
        }
    }

    fn lower(&mut self, tree: &IdedExpr) -> Result<Type, ExpressionError> {
        match &tree.expr {
            Expr::Literal(literal) => self.literal(tree.id, literal),
            Expr::Ident(name) => {
                let variable = Variable::named(name).ok_or_else(|| self.error(tree.id, unknown_variable(name)))?;
                self.ops.push(Op::Load(variable));
                Ok(Type::Number)
            }
            Expr::Call(call) => self.call(tree.id, call),
            _ => Err(self.error(tree.id, "only numbers, variables, operators and functions may stand here".into())),
        }
    }

    fn literal(&mut self, id: u64, literal: &LiteralValue) -> Result<Type, ExpressionError> {
        let (value, kind) = match literal {
            LiteralValue::Int(value) => (*value.inner() as f64, Type::Number),
            LiteralValue::UInt(value) => (*value.inner() as f64, Type::Number),
            LiteralValue::Double(value) => (*value.inner(), Type::Number),
            LiteralValue::Boolean(value) => (f64::from(u8::from(*value.inner())), Type::Truth),
            LiteralValue::Bytes(_) | LiteralValue::Null | LiteralValue::String(_) => {
                return Err(self.error(id, "only numbers and truth values can be used".into()));
            }
        };
        if !value.is_finite() {
            return Err(self.error(id, "this number is too large".into()));
        }
        self.ops.push(Op::Const(value));
        Ok(kind)
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Result<Type, ExpressionError> {
        if call.target.is_some() {
            return Err(self.error(id, format!("`{}` is not a method; functions stand alone", call.func_name)));
        }
        let Some((op, takes, gives)) = operation(&call.func_name) else {
            return Err(self.error(id, format!("no function is called `{}`; there are {FUNCTIONS}", call.func_name)));
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, if_true, if_false]) => {
                self.expect(condition, Type::Truth)?;
                let kind = self.lower(if_true)?;
                self.expect(if_false, kind)?;
                self.ops.push(op);
                Ok(kind)
            }
            (operators::NEGATE, [IdedExpr { expr: Expr::Literal(LiteralValue::Int(value)), .. }]) => {
                self.ops.push(Op::Const(-(*value.inner() as f64)));
                Ok(Type::Number)
            }
            (_, arguments) if arguments.len() == arity(op) => {
                for argument in arguments {
                    self.expect(argument, takes)?;
                }
                self.ops.push(op);
                Ok(gives)
            }
            (name, arguments) => {
                Err(self.error(id, format!("`{name}` takes {} values, {} are given", arity(op), arguments.len())))
            }
        }
    }

    fn error(&self, id: u64, message: String) -> ExpressionError {
        let start = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        let before: String = self.text.chars().take(start).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ExpressionError { line: number(line), column: number(column), message }
    }
}

const FUNCTIONS: &str = "min, max, pow, abs, sqrt, log, exp, floor and ceil";

fn arity(op: Op) -> usize {
    match op {
        Op::Const(_) | Op::Load(_) => 0,
        Op::Unary(_) => 1,
        Op::Binary(_) => 2,
        Op::Select => 3,
    }
}

/// Instruction of an operator or function, type of its operands, type of its result.
fn operation(name: &str) -> Option<(Op, Type, Type)> {
    use Type::{Number, Truth};
    let unary = |function, takes, gives| Some((Op::Unary(function), takes, gives));
    let arithmetic = |function| Some((Op::Binary(function), Number, Number));
    let comparison = |function| Some((Op::Binary(function), Number, Truth));
    let logic = |function| Some((Op::Binary(function), Truth, Truth));
    match name {
        operators::ADD => arithmetic(Binary::Add),
        operators::SUBSTRACT => arithmetic(Binary::Sub),
        operators::MULTIPLY => arithmetic(Binary::Mul),
        operators::DIVIDE => arithmetic(Binary::Div),
        operators::MODULO => arithmetic(Binary::Rem),
        "min" => arithmetic(Binary::Min),
        "max" => arithmetic(Binary::Max),
        "pow" => arithmetic(Binary::Pow),
        operators::LESS => comparison(Binary::Less),
        operators::LESS_EQUALS => comparison(Binary::LessEqual),
        operators::GREATER => comparison(Binary::Greater),
        operators::GREATER_EQUALS => comparison(Binary::GreaterEqual),
        operators::EQUALS => comparison(Binary::Equal),
        operators::NOT_EQUALS => comparison(Binary::NotEqual),
        operators::LOGICAL_AND => logic(Binary::And),
        operators::LOGICAL_OR => logic(Binary::Or),
        operators::LOGICAL_NOT => unary(Unary::Not, Truth, Truth),
        operators::NEGATE => unary(Unary::Neg, Number, Number),
        "abs" => unary(Unary::Abs, Number, Number),
        "sqrt" => unary(Unary::Sqrt, Number, Number),
        "log" => unary(Unary::Log, Number, Number),
        "exp" => unary(Unary::Exp, Number, Number),
        "floor" => unary(Unary::Floor, Number, Number),
        "ceil" => unary(Unary::Ceil, Number, Number),
        operators::CONDITIONAL => Some((Op::Select, Truth, Number)),
        _ => None,
    }
}

fn unknown_variable(name: &str) -> String {
    let known: Vec<&str> = Variable::ALL.iter().map(|variable| variable.name()).collect();
    format!("no variable is called `{name}`; there are {}", known.join(", "))
}
