//! Tools as vLLM's request model writes them back to the template: known fields only, in its own order.

use serde_json::{Map, Value, json};

use super::chat::ChatError;

/// The tools a template sees.
pub(super) fn prepare(tools: &[Value]) -> Result<Value, ChatError> {
    if tools.is_empty() {
        return Err(ChatError::NoTools);
    }
    tools
        .iter()
        .enumerate()
        .map(|(index, tool)| prepare_one(tool).map_err(|reason| ChatError::Tool { index, reason }))
        .collect()
}

fn prepare_one(tool: &Value) -> Result<Value, String> {
    let function = tool.get("function").and_then(Value::as_object).ok_or("needs an object `function`")?;
    if !function.get("name").is_some_and(Value::is_string) {
        return Err("`function` needs a string `name`".to_owned());
    }
    let deferred = tool.get("defer_loading").filter(|value| !value.is_null());
    let mut written = Map::new();
    for key in ["name", "description", "parameters"] {
        written.insert(key.to_owned(), function.get(key).cloned().unwrap_or(Value::Null));
    }
    if let Some(strict) = function.get("strict").filter(|value| !value.is_null()) {
        written.insert("strict".to_owned(), strict.clone());
    }
    let own = function.get("defer_loading").filter(|value| !value.is_null());
    if let Some(value) = own.or(deferred) {
        written.insert("defer_loading".to_owned(), value.clone());
    }
    let mut entry = Map::new();
    entry.insert("type".to_owned(), tool.get("type").cloned().unwrap_or_else(|| json!("function")));
    entry.insert("function".to_owned(), Value::Object(written));
    if let Some(value) = deferred {
        entry.insert("defer_loading".to_owned(), value.clone());
    }
    Ok(Value::Object(entry))
}
