//! Cost expressions: CEL syntax over the numbers of one target, lowered to a checked program.
//!
//! The language is the part of CEL that has a bounded cost: numbers, truth values, `+ - * / %`, comparisons, `&& || !`,
//! `a ? b : c`, and the functions `min max pow abs sqrt log exp floor ceil`. Integer and decimal literals are the same
//! kind of number. Variables are those of [`Variable`]. An expression must give a number.

mod lower;
mod sign;

use cel::parser::{ParseErrors, Parser};
use kv_routing::policy::program::{Program, ProgramError, Variable};
pub(super) use sign::may_be_negative;
use thiserror::Error;

/// Longest expression text, in bytes.
pub const MAX_TEXT: usize = 4096;
/// Deepest nesting of the text.
const MAX_NESTING: u16 = 64;

/// Why a text is not a cost expression, with the place in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}, column {column}: {message}")]
pub struct ExpressionError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong there.
    pub message: String,
}

/// Compiles the text of an expression.
///
/// # Errors
/// [`ExpressionError`] points at the first thing that does not parse, is not known, or has the wrong type.
pub fn compile(text: &str) -> Result<Program, ExpressionError> {
    let whole = |message: String| ExpressionError { line: 1, column: 1, message };
    if text.len() > MAX_TEXT {
        return Err(whole(format!("{} bytes long, {MAX_TEXT} are allowed", text.len())));
    }
    let parser = Parser::new().max_recursion_depth(MAX_NESTING);
    let (tree, source) = parser.parse_with_source_info(text).map_err(|errors| first(&errors))?;
    let ops = lower::number(&tree, text, &source)?;
    Program::new(ops).map_err(|error: ProgramError| whole(error.to_string()))
}

fn first(errors: &ParseErrors) -> ExpressionError {
    let place = |number: isize| u32::try_from(number).unwrap_or(1).max(1);
    match errors.errors.first() {
        Some(error) => {
            ExpressionError { line: place(error.pos.0), column: place(error.pos.1), message: error.msg.clone() }
        }
        None => ExpressionError { line: 1, column: 1, message: "does not parse".into() },
    }
}

/// Every variable with its meaning, for `--help` and errors.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    Variable::ALL.iter().map(|variable| (variable.name(), variable.meaning()))
}

#[cfg(test)]
mod tests;
