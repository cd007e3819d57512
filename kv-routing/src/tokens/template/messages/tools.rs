//! Tool definitions and tool calls.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::openai::json::{JsonError, JsonProblem, to_value};
use crate::openai::value::{Dict, DictBuilder, List};
use crate::openai::{ChatInput, ToolChoice};
use crate::tokens::template::error::RenderError;

/// The tools as vLLM gives them to templates: its own fields in its own order, missing ones as null.
pub(in crate::tokens::template) fn tools(
    chat: &ChatInput<'_>,
    exclude_when_none: bool,
) -> Result<Option<Value>, RenderError> {
    let Some(tools) = &chat.tools else { return Ok(None) };
    if exclude_when_none && chat.tool_choice == ToolChoice::None {
        return Ok(None);
    }
    let tools: Option<Vec<Value>> = tools.try_iter().into_iter().flatten().map(|tool| one_tool(&tool)).collect();
    tools.map(|tools| Some(List::value(tools))).ok_or(RenderError::Refused("a tool that is not a function"))
}

fn one_tool(tool: &Value) -> Option<Value> {
    let tool = tool.downcast_object_ref::<Dict>()?;
    let function = tool.get("function")?.downcast_object_ref::<Dict>()?;
    let kind = tool.get("type").map_or_else(|| Value::from("function"), Value::clone);
    let optional = |name: &str| function.get(name).cloned().unwrap_or_else(|| Value::from(()));
    let deferred = tool.get("defer_loading").filter(|value| !value.is_none());
    let mut out = DictBuilder::default();
    out.set("name", function.get("name").filter(|name| name.as_str().is_some())?.clone());
    out.set("description", optional("description"));
    out.set("parameters", optional("parameters"));
    if let Some(strict) = function.get("strict").filter(|value| !value.is_none()) {
        out.set("strict", strict.clone());
    }
    if let Some(defer) = function.get("defer_loading").filter(|value| !value.is_none()).or(deferred) {
        out.set("defer_loading", defer.clone());
    }
    let mut dict = DictBuilder::default();
    dict.set("type", kind);
    dict.set("function", out.finish());
    if let Some(defer) = deferred {
        dict.set("defer_loading", defer.clone());
    }
    Some(dict.finish())
}

/// Tool calls with their arguments parsed; none when the list is empty.
pub(super) fn tool_calls(calls: &Value) -> Result<Option<Value>, RenderError> {
    let refused = || RenderError::Refused("a tool call that is not a function's");
    let mut out = Vec::new();
    for call in calls.try_iter().map_err(|_| refused())? {
        let dict = call.downcast_object_ref::<Dict>().ok_or_else(refused)?;
        let function =
            dict.get("function").and_then(|function| function.downcast_object_ref::<Dict>()).ok_or_else(refused)?;
        let mut made_function = DictBuilder::from(function);
        made_function.set("arguments", arguments(function.get("arguments"))?);
        let mut made = DictBuilder::from(dict);
        made.set("function", made_function.finish());
        out.push(made.finish());
    }
    Ok(if out.is_empty() { None } else { Some(List::value(out)) })
}

/// Arguments as a dict: parsed when they are text, empty when they are anything but an object.
fn arguments(given: Option<&Value>) -> Result<Value, RenderError> {
    let parsed = match given.map(|given| (given, given.as_str())) {
        // Python refuses a byte order mark in a text.
        Some((_, Some(text))) if !text.starts_with('\u{feff}') => match to_value(text.as_bytes()) {
            Ok(value) => Some(value),
            Err(JsonError { problem: JsonProblem::Depth | JsonProblem::Values | JsonProblem::Number, .. }) => {
                return Err(RenderError::Refused("arguments of a tool call that are over a bound of the reader"));
            }
            Err(_) => None,
        },
        Some((_, Some(_))) | None => None,
        Some((other, None)) => Some(other.clone()),
    };
    Ok(parsed.filter(|parsed| parsed.kind() == ValueKind::Map).unwrap_or_else(|| DictBuilder::default().finish()))
}
