//! Filters of numbers.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::text::invalid;
use crate::openai::value::Float;
use crate::tokens::template::methods::python_space;

/// `int(default=0, base=10)`
pub(in crate::tokens::template) fn int(value: &Value, default: Option<Value>, base: Option<u32>) -> Value {
    let default = default.unwrap_or_else(|| Value::from(0));
    let parsed = match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => return value.clone(),
        ValueKind::Number | ValueKind::Plain => Float::of(value).and_then(truncated),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim_matches(python_space).replace('_', "");
            let base = base.unwrap_or(10);
            let digits = i128::from_str_radix(&text, base.clamp(2, 36)).ok();
            digits.or_else(|| text.parse::<f64>().ok().and_then(truncated))
        }
        _ => None,
    };
    parsed.map_or(default, |int| i64::try_from(int).map_or_else(|_| Value::from(int), Value::from))
}

fn truncated(float: f64) -> Option<i128> {
    (float.is_finite() && float.abs() < 1e38).then_some(float as i128)
}

/// `float(default=0.0)`
pub(in crate::tokens::template) fn float(value: &Value, default: Option<Value>) -> Value {
    let parsed = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::Plain => Float::of(value),
        ValueKind::String => value.as_str().and_then(|text| text.trim_matches(python_space).parse().ok()),
        _ => None,
    };
    parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from)
}

/// `abs`
pub(in crate::tokens::template) fn abs(value: &Value) -> Result<Value, Error> {
    if let Some(float) = Float::of(value) {
        return Ok(Float::value(float.abs()));
    }
    let int =
        i128::try_from(value.clone()).ok().filter(|_| value.kind() != ValueKind::String).and_then(i128::checked_abs);
    int.map(Value::from).ok_or_else(|| invalid(format!("abs: not of a {}", value.kind())))
}

/// `round(precision=0, method='common')`: halves go to the even neighbour.
pub(in crate::tokens::template) fn round(
    value: &Value,
    precision: Option<i32>,
    method: Option<&str>,
) -> Result<Value, Error> {
    let precision = precision.unwrap_or(0);
    let method = method.unwrap_or("common");
    let Some(float) = Float::of(value) else {
        let int = i128::try_from(value.clone()).ok().filter(|_| precision >= 0 && value.kind() != ValueKind::String);
        let int = int.ok_or_else(|| invalid(format!("round: not of a {}", value.kind())))?;
        // Rounding up or down goes by way of floats.
        return Ok(if method == "common" { Value::from(int) } else { Float::value(int as f64) });
    };
    let scale = 10_f64.powi(precision);
    Ok(Float::value(match method {
        "ceil" => (float * scale).ceil() / scale,
        "floor" => (float * scale).floor() / scale,
        "common" => match usize::try_from(precision) {
            // Printing rounds the exact value, halves to even, which is what Python does.
            Ok(digits) => format!("{float:.digits$}").parse().unwrap_or(float),
            Err(_) => (float * scale).round_ties_even() / scale,
        },
        _ => return Err(invalid("round: method must be common, ceil or floor".to_owned())),
    }))
}
