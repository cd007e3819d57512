//! Messages and tools of a chat request to harmony's.

use std::collections::HashMap;

use kv_routing::openai::value::Dict;
use kv_routing::openai::{self, Content};
use minijinja::Value;

use super::schema::Function;
use super::{CALL, CHANNEL, HarmonyError, Message, Piece, developer};

/// `tools` of a request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Whether the list holds anything, functions or not.
    pub(super) given: bool,
    pub(super) functions: Vec<Function>,
}

fn refuse<T>(what: impl Into<String>) -> Result<T, HarmonyError> {
    Err(HarmonyError::Field(what.into()))
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_none() && !value.is_undefined())
}

fn attribute(value: &Value, name: &str) -> Option<Value> {
    value.get_attr(name).ok().filter(|value| !value.is_none() && !value.is_undefined())
}

/// An attribute that is a string, or not there.
fn text_attribute(value: &Value, name: &str) -> Result<Option<String>, HarmonyError> {
    match attribute(value, name) {
        None => Ok(None),
        Some(found) => match found.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => refuse(format!("`{name}` is no string")),
        },
    }
}

/// Reads `tools`; the built-in kinds add nothing to the prompt.
pub(super) fn tools(list: &Value) -> Result<Tools, HarmonyError> {
    let Ok(items) = list.try_iter() else { return refuse("`tools` is no list") };
    let mut tools = Tools::default();
    for tool in items {
        tools.given = true;
        match text_attribute(&tool, "type")?.as_deref() {
            Some("function") => tools.functions.push(function(&tool)?),
            Some("web_search_preview" | "code_interpreter" | "container") => {}
            other => return refuse(format!("tool type {other:?}")),
        }
    }
    Ok(tools)
}

fn function(tool: &Value) -> Result<Function, HarmonyError> {
    let Some(function) = attribute(tool, "function") else { return refuse("a tool without `function`") };
    let Some(name) = text_attribute(&function, "name")? else { return refuse("a function without `name`") };
    let description = text_attribute(&function, "description")?.unwrap_or_default();
    let parameters = match attribute(&function, "parameters") {
        None => None,
        Some(schema) => match serde_json::to_value(&schema) {
            Ok(schema) => Some(schema),
            Err(error) => return refuse(format!("parameters of `{name}`: {error}")),
        },
    };
    Ok(Function { name, description, parameters })
}

/// A leading system or developer message is the instructions; what is left.
pub(super) fn split_instructions(
    messages: &[openai::Message],
) -> Result<(Option<String>, &[openai::Message]), HarmonyError> {
    match messages.split_first() {
        Some((first, rest)) if matches!(first.role.as_str(), Some("system" | "developer")) => {
            Ok((flattened(&first.content)?, rest))
        }
        _ => Ok((None, messages)),
    }
}

/// Text of a content in one piece; `None` when it holds none.
fn flattened(content: &Content) -> Result<Option<String>, HarmonyError> {
    match content {
        Content::Absent => Ok(None),
        Content::Text(text) => Ok(text.as_str().map(str::to_owned)),
        Content::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| present(part.fields.get("text"))).map(text_of);
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            Ok((!texts.is_empty()).then(|| texts.concat()))
        }
    }
}

fn text_of(value: &Value) -> Result<String, HarmonyError> {
    value.as_str().map(str::to_owned).map_or_else(|| refuse("`text` is no string"), Ok)
}

/// Texts of a content, part by part.
fn texts(content: &Content) -> Result<Vec<String>, HarmonyError> {
    match content {
        Content::Parts(parts) if !parts.is_empty() => parts
            .iter()
            .map(|part| match part.fields.get("text") {
                None => Ok(String::new()),
                Some(text) => text_of(text),
            })
            .collect(),
        Content::Text(text) => Ok(vec![text_of(text)?]),
        Content::Absent | Content::Parts(_) => Ok(vec![String::new()]),
    }
}

/// All other messages.
pub(super) fn messages(messages: &[openai::Message]) -> Result<Vec<Message>, HarmonyError> {
    let mut names: HashMap<String, String> = HashMap::new();
    for call in messages.iter().flat_map(|message| calls(&message.fields)) {
        if let (Some(id), Some(function)) = (text_attribute(&call, "id")?, attribute(&call, "function")) {
            names.insert(id, text_attribute(&function, "name")?.unwrap_or_else(|| "None".to_owned()));
        }
    }
    let mut all = Vec::new();
    for message in messages {
        match message.role.as_str() {
            Some("assistant") => assistant(message, &mut all)?,
            Some("tool") => all.push(tool(message, &names)?),
            Some("user") => all.push(Message::new("user", texts(&message.content)?)),
            Some("system" | "developer") => {
                all.extend(flattened(&message.content)?.map(|text| developer(Some(&text), &[])));
            }
            other => return refuse(format!("role {other:?}")),
        }
    }
    Ok(all)
}

fn calls(fields: &Dict) -> Vec<Value> {
    let list = present(fields.get("tool_calls"));
    list.and_then(|list| list.try_iter().ok()).into_iter().flatten().collect()
}

fn assistant(message: &openai::Message, all: &mut Vec<Message>) -> Result<(), HarmonyError> {
    let field = |name: &str| present(message.fields.get(name)).map(text_of).transpose();
    let reasoning = field("reasoning")?.or(field("reasoning_content")?).filter(|text| !text.is_empty());
    let thought = reasoning.map(|text| Message::new("assistant", vec![text]).on("analysis"));
    let calls = calls(&message.fields);
    if calls.is_empty() {
        all.extend(thought);
        let texts = texts(&message.content)?;
        if texts.first().is_some_and(|first| !first.is_empty()) {
            all.push(Message::new("assistant", texts).on("final"));
        }
        return Ok(());
    }
    if let Some(text) = flattened(&message.content)?.filter(|text| !text.is_empty()) {
        all.push(Message::new("assistant", vec![text]).on("commentary"));
    }
    all.extend(thought);
    for call in &calls {
        let function = attribute(call, "function").unwrap_or_default();
        let name = text_attribute(&function, "name")?.unwrap_or_default();
        let arguments = text_attribute(&function, "arguments")?.unwrap_or_default();
        all.push(Message {
            header: vec![
                Piece::Text(format!("assistant to=functions.{name}")),
                Piece::Special(CHANNEL),
                Piece::Text("commentary json".to_owned()),
            ],
            channel: Some("commentary"),
            contents: vec![arguments],
            end: CALL,
        });
    }
    Ok(())
}

fn tool(message: &openai::Message, names: &HashMap<String, String>) -> Result<Message, HarmonyError> {
    let id = present(message.fields.get("tool_call_id")).map(text_of).transpose()?.unwrap_or_default();
    let name = names.get(&id).map(String::as_str).unwrap_or_default();
    let content = flattened(&message.content)?.unwrap_or_default();
    let mut tool = Message::new(&format!("functions.{name}"), vec![content]).on("commentary");
    tool.header.push(Piece::Text(" to=assistant".to_owned()));
    Ok(tool)
}
