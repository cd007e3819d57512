//! Slices with a step, as Python cuts them.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::openai::value::List;

fn invalid(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// `value[start:stop:step]`; none stands for what is left out.
pub(super) fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |bound: &Value| match bound.is_none() {
        true => Ok(None),
        false => bound.as_i64().map(Some).ok_or_else(|| invalid("slice indices must be integers")),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    match value.kind() {
        ValueKind::String => {
            let chars: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
            let taken = indices(chars.len(), start, stop, step)?;
            Ok(Value::from(taken.filter_map(|index| chars.get(index)).collect::<String>()))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let taken = indices(items.len(), start, stop, step)?;
            Ok(List::value(taken.filter_map(|index| items.get(index).cloned()).collect()))
        }
        _ => Err(invalid("only strings and lists can be sliced")),
    }
}

/// The positions that a slice takes, in its order.
fn indices(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<impl Iterator<Item = usize>, Error> {
    if step == 0 {
        return Err(invalid("slice step cannot be zero"));
    }
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    // Where a bound out of range ends up: just outside, on the side the slice comes from or goes to.
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |bound: i64| if bound < 0 { bound.saturating_add(len) } else { bound }.clamp(lowest, highest);
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let start = start.map_or(first, place);
    let stop = stop.map_or(last, place);
    let mut next = start;
    Ok(std::iter::from_fn(move || {
        let within = if step > 0 { next < stop } else { next > stop };
        let index = usize::try_from(next).ok().filter(|_| within);
        next = next.saturating_add(step);
        index
    }))
}
