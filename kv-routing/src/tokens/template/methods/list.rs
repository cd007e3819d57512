//! List methods.

use minijinja::{Error, Value};

use super::{FORBIDDEN, invalid, unknown};

pub(super) fn call(value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let wanted = || args.first().ok_or_else(|| invalid(format!("{name}: an argument is needed")));
    match name {
        "index" => {
            let wanted = wanted()?;
            let at = value.try_iter()?.position(|item| &item == wanted);
            at.map(Value::from).ok_or_else(|| invalid("index: not in the list"))
        }
        "count" => {
            let wanted = wanted()?;
            Ok(Value::from(value.try_iter()?.filter(|item| item == wanted).count()))
        }
        "copy" => Ok(value.clone()),
        _ if FORBIDDEN.contains(&name) => {
            Err(invalid(format!("`{name}` would change a list, which the sandbox forbids")))
        }
        _ => Err(unknown()),
    }
}
