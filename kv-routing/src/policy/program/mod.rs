//! Cost expressions, as the filter runs them: a bounded stack program over the numbers of one target.
//!
//! The bridge parses and type-checks the text of an expression and lowers it to a [`Program`]; the filter only ever sees
//! programs that [`Program::new`] accepted, so that evaluating one takes bounded time, no memory and cannot fail.
//! Truth values are 1 and 0. Both sides of `&&`, `||` and `?:` are evaluated, which is harmless: nothing has effects.

mod eval;
mod variable;

use bincode::{Decode, Encode};
use thiserror::Error;

pub use variable::{Variable, Variables};

/// Most instructions in a program.
pub const MAX_OPS: usize = 256;
/// Most values on the stack.
pub const MAX_STACK: usize = 32;

/// One instruction. Operands come off the stack, the result goes onto it.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub enum Op {
    /// A number.
    Const(f64),
    /// A number of the target.
    Load(Variable),
    /// A function of one value.
    Unary(Unary),
    /// A function of two values, the left one pushed first.
    Binary(Binary),
    /// Of condition, value if true, value if false, in this order: one of the values.
    Select,
}

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Unary {
    /// `-x`
    Neg,
    /// `!x`
    Not,
    /// `abs(x)`
    Abs,
    /// `sqrt(x)`
    Sqrt,
    /// `log(x)`, natural
    Log,
    /// `exp(x)`
    Exp,
    /// `floor(x)`
    Floor,
    /// `ceil(x)`
    Ceil,
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `a % b`
    Rem,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `pow(a, b)`
    Pow,
    /// `a < b`
    Less,
    /// `a <= b`
    LessEqual,
    /// `a > b`
    Greater,
    /// `a >= b`
    GreaterEqual,
    /// `a == b`
    Equal,
    /// `a != b`
    NotEqual,
    /// `a && b`
    And,
    /// `a || b`
    Or,
}

/// A checked program that leaves one number.
#[derive(Clone, Debug, PartialEq, Encode)]
pub struct Program {
    ops: Vec<Op>,
}

/// Why instructions are not a program.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProgramError {
    /// Too long.
    #[error("the expression needs {0} instructions, {MAX_OPS} are allowed: make it shorter")]
    TooLong(usize),
    /// Too deep.
    #[error("the expression nests deeper than {MAX_STACK} values: make it shallower")]
    TooDeep,
    /// An instruction finds too few operands, or not exactly one value is left.
    #[error("the instructions do not form one expression")]
    Unbalanced,
}

impl Program {
    /// Checks length, depth and balance.
    ///
    /// # Errors
    /// [`ProgramError`] names the bound that is broken.
    pub fn new(ops: Vec<Op>) -> Result<Self, ProgramError> {
        if ops.len() > MAX_OPS {
            return Err(ProgramError::TooLong(ops.len()));
        }
        let mut depth = 0_usize;
        for op in &ops {
            let takes = match op {
                Op::Const(_) | Op::Load(_) => 0,
                Op::Unary(_) => 1,
                Op::Binary(_) => 2,
                Op::Select => 3,
            };
            depth = depth.checked_sub(takes).ok_or(ProgramError::Unbalanced)? + 1;
            if depth > MAX_STACK {
                return Err(ProgramError::TooDeep);
            }
        }
        if depth == 1 { Ok(Self { ops }) } else { Err(ProgramError::Unbalanced) }
    }

    /// The instructions.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Whether the program reads `variable`.
    pub fn reads(&self, variable: Variable) -> bool {
        self.ops.contains(&Op::Load(variable))
    }
}

/// Decoding checks again: what lies in shared data is not trusted to be what the bridge wrote.
impl<Context> Decode<Context> for Program {
    fn decode<D: bincode::de::Decoder<Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, bincode::error::DecodeError> {
        Self::new(Vec::decode(decoder)?).map_err(|error| bincode::error::DecodeError::OtherString(error.to_string()))
    }
}

impl<'de, Context> bincode::BorrowDecode<'de, Context> for Program {
    fn borrow_decode<D: bincode::de::BorrowDecoder<'de, Context = Context>>(
        decoder: &mut D,
    ) -> Result<Self, bincode::error::DecodeError> {
        <Self as Decode<Context>>::decode(decoder)
    }
}
