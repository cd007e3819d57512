//! Whether the value of an expression can be negative.

use kv_routing::policy::program::{Binary, Op, Program, Unary};

/// Whether `program` may give a negative number. `true` is a guess on the safe side, `false` is certain: no variable is ever negative.
pub(in crate::policy) fn may_be_negative(program: &Program) -> bool {
    let mut stack: Vec<bool> = Vec::new();
    for op in program.ops() {
        let mut pop = || stack.pop().unwrap_or(true);
        let negative = match *op {
            Op::Const(value) => value < 0.0,
            Op::Load(_) => false,
            Op::Unary(function) => unary(function, pop()),
            Op::Binary(function) => {
                let (right, left) = (pop(), pop());
                binary(function, left, right)
            }
            Op::Select => {
                let (if_false, if_true, _condition) = (pop(), pop(), pop());
                if_true || if_false
            }
        };
        stack.push(negative);
    }
    stack.pop().unwrap_or(true)
}

fn unary(function: Unary, operand: bool) -> bool {
    match function {
        Unary::Neg | Unary::Log => true,
        Unary::Floor | Unary::Ceil => operand,
        Unary::Not | Unary::Abs | Unary::Sqrt | Unary::Exp => false,
    }
}

fn binary(function: Binary, left: bool, right: bool) -> bool {
    match function {
        Binary::Sub => true,
        Binary::Add | Binary::Mul | Binary::Div | Binary::Min => left || right,
        Binary::Max => left && right,
        Binary::Rem | Binary::Pow => left,
        Binary::Less
        | Binary::LessEqual
        | Binary::Greater
        | Binary::GreaterEqual
        | Binary::Equal
        | Binary::NotEqual
        | Binary::And
        | Binary::Or => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile;
    use super::*;

    #[test]
    fn what_subtracts_may_be_negative_unless_it_is_bounded() {
        let negative = |text: &str| may_be_negative(&compile(text).unwrap());
        for text in [
            "decode_blocks - waiting",
            "-waiting",
            "log(waiting)",
            "waiting > 1 ? -1 : 1",
            "min(waiting, -2)",
            "pow(-2, 3)",
            "floor(1 - waiting)",
            "max(waiting - 1, decode_blocks - 1)",
        ] {
            assert!(negative(text), "{text}");
        }
        for text in [
            "prefill_scale * prefill_blocks + decode_blocks + 4 * waiting",
            "max(0, decode_blocks - waiting)",
            "abs(1 - waiting)",
            "pow(2, 1 - waiting)",
            "1 - waiting > 0 ? 1 : 2",
            "exp(-waiting) + sqrt(waiting) % 3",
        ] {
            assert!(!negative(text), "{text}");
        }
    }
}
