//! Running a program.

use super::{Binary, MAX_STACK, Op, Program, Unary, Variables};

/// Values in use, top last. Reading below the bottom gives NaN, which [`Program::new`] makes impossible.
struct Stack {
    values: [f64; MAX_STACK],
    depth: usize,
}

impl Stack {
    fn push(&mut self, value: f64) {
        if let Some(place) = self.values.get_mut(self.depth) {
            *place = value;
            self.depth += 1;
        }
    }

    fn pop(&mut self) -> f64 {
        self.depth = self.depth.saturating_sub(1);
        self.values.get(self.depth).copied().unwrap_or(f64::NAN)
    }
}

impl Program {
    /// The expression's value for one target; `None` when it is not a finite number (a division by zero, say).
    pub fn eval(&self, variables: &Variables) -> Option<f64> {
        let mut stack = Stack { values: [0.0; MAX_STACK], depth: 0 };
        for op in &self.ops {
            let value = match *op {
                Op::Const(value) => value,
                Op::Load(variable) => variables.get(variable),
                Op::Unary(function) => unary(function, stack.pop()),
                Op::Binary(function) => {
                    let right = stack.pop();
                    binary(function, stack.pop(), right)
                }
                Op::Select => {
                    let (if_false, if_true) = (stack.pop(), stack.pop());
                    if stack.pop() == 0.0 { if_false } else { if_true }
                }
            };
            stack.push(value);
        }
        Some(stack.pop()).filter(|value| value.is_finite())
    }
}

fn unary(function: Unary, x: f64) -> f64 {
    match function {
        Unary::Neg => -x,
        Unary::Not => truth(x == 0.0),
        Unary::Abs => x.abs(),
        Unary::Sqrt => x.sqrt(),
        Unary::Log => x.ln(),
        Unary::Exp => x.exp(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
    }
}

fn binary(function: Binary, a: f64, b: f64) -> f64 {
    match function {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => a % b,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Pow => a.powf(b),
        Binary::Less => truth(a < b),
        Binary::LessEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterEqual => truth(a >= b),
        Binary::Equal => truth(a == b),
        Binary::NotEqual => truth(a != b),
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
    }
}

fn truth(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::{ProgramError, Variable};
    use super::*;

    fn run(ops: Vec<Op>) -> Option<f64> {
        let mut variables = Variables::default();
        variables.set(Variable::Waiting, 3.0);
        Program::new(ops).unwrap().eval(&variables)
    }

    #[test]
    fn arithmetic_selection_and_undefined_results() {
        let four_waiting = vec![Op::Const(4.0), Op::Load(Variable::Waiting), Op::Binary(Binary::Mul)];
        assert_eq!(run(four_waiting), Some(12.0));
        let chosen = vec![
            Op::Load(Variable::Waiting),
            Op::Const(2.0),
            Op::Binary(Binary::Greater),
            Op::Const(7.0),
            Op::Const(8.0),
            Op::Select,
        ];
        assert_eq!(run(chosen), Some(7.0));
        assert_eq!(run(vec![Op::Const(10.0), Op::Const(4.0), Op::Binary(Binary::Sub)]), Some(6.0));
        assert_eq!(run(vec![Op::Const(1.0), Op::Const(0.0), Op::Binary(Binary::Div)]), None);
        assert_eq!(run(vec![Op::Const(-1.0), Op::Unary(Unary::Sqrt)]), None);
    }

    #[test]
    fn what_is_not_one_expression_is_refused() {
        let refused = |ops| Program::new(ops).unwrap_err();
        assert_eq!(refused(vec![]), ProgramError::Unbalanced);
        assert_eq!(refused(vec![Op::Const(1.0), Op::Const(1.0)]), ProgramError::Unbalanced);
        assert_eq!(refused(vec![Op::Const(1.0), Op::Binary(Binary::Add)]), ProgramError::Unbalanced);
        assert_eq!(refused(vec![Op::Const(0.0); MAX_STACK + 1]), ProgramError::TooDeep);
        assert_eq!(refused(vec![Op::Const(0.0); 300]), ProgramError::TooLong(300));
    }

    #[test]
    fn a_bad_program_does_not_decode() {
        let config = bincode::config::standard();
        let good = bincode::encode_to_vec(vec![Op::Const(1.0)], config).unwrap();
        let (program, _): (Program, _) = bincode::decode_from_slice(&good, config).unwrap();
        assert_eq!(program.ops(), [Op::Const(1.0)]);
        let bad = bincode::encode_to_vec(vec![Op::Select], config).unwrap();
        assert!(bincode::decode_from_slice::<Program, _>(&bad, config).is_err());
    }
}
