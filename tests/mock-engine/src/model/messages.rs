//! Messages as vLLM rewrites them before the template sees them.

use serde_json::{Map, Value, json};

use super::chat::ChatError;
use super::content_format::ContentFormat;
use super::template::ChatTemplate;

/// First line of a system message that changes with every request of one client; it never reaches a template.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// All messages, in the form the template wants.
pub(super) fn prepare(messages: &[Value], template: &ChatTemplate) -> Result<Vec<Value>, ChatError> {
    let format = template.content_format();
    let prepared = messages
        .iter()
        .enumerate()
        .map(|(index, message)| prepare_one(message, format).map_err(|reason| ChatError::Message { index, reason }))
        .collect::<Result<Vec<Value>, ChatError>>()?;
    let developers = prepared.iter().any(|message| message["role"] == "developer");
    Ok(if developers && !template.knows_developers() { with_one_system_message(prepared) } else { prepared })
}

fn prepare_one(message: &Value, format: ContentFormat) -> Result<Value, String> {
    let fields = message.as_object().ok_or("must be an object")?;
    let role = fields.get("role").and_then(Value::as_str).ok_or("needs a string `role`")?;
    let mut parts = match fields.get("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![Part::plain(text.clone())],
        Some(Value::Array(parts)) => parts.iter().map(Part::read).collect::<Result<_, _>>()?,
        Some(_) => return Err("`content` must be a string or a list of parts".to_owned()),
    };
    if role == "system" {
        parts = parts.into_iter().filter_map(Part::without_billing_header).collect();
    }
    let mut prepared = Map::new();
    prepared.insert("role".to_owned(), Value::String(role.to_owned()));
    prepared.insert("content".to_owned(), content(&parts, format, role));
    match role {
        "assistant" => add_assistant_fields(&mut prepared, fields)?,
        "tool" => {
            if let Some(id) = fields.get("tool_call_id") {
                prepared.insert("tool_call_id".to_owned(), id.clone());
            }
        }
        _ => {}
    }
    match fields.get("name") {
        Some(name @ Value::String(_)) => {
            prepared.insert("name".to_owned(), name.clone());
        }
        Some(_) => return Err("`name` must be a string".to_owned()),
        None => {}
    }
    if let Some(task) = fields.get("task").filter(|task| task.is_string()) {
        prepared.insert("task".to_owned(), task.clone());
    }
    if role == "developer" {
        prepared.insert("tools".to_owned(), fields.get("tools").cloned().unwrap_or(Value::Null));
    }
    Ok(Value::Object(prepared))
}

/// One part of a content list that is text.
struct Part {
    kind: PartKind,
    text: String,
    /// Fields that the API does not know; templates see them.
    extra: Map<String, Value>,
}

#[derive(PartialEq, Eq)]
enum PartKind {
    Text,
    ToolReference,
}

/// Fields of the API's content parts, of whatever type.
const KNOWN_FIELDS: [&str; 20] = [
    "type",
    "text",
    "image_url",
    "input_audio",
    "file",
    "audio_url",
    "video_url",
    "refusal",
    "image_pil",
    "image_embeds",
    "audio_embeds",
    "video_embeds",
    "data",
    "uuid",
    "thinking",
    "closed",
    "name",
    "prompt_cache_breakpoint",
    "detail",
    "format",
];

impl Part {
    fn plain(text: String) -> Self {
        Self { kind: PartKind::Text, text, extra: Map::new() }
    }

    fn read(part: &Value) -> Result<Self, String> {
        if let Value::String(text) = part {
            return Ok(Self::plain(text.clone()));
        }
        let fields = part.as_object().ok_or("a content part must be a string or an object")?;
        let kind = fields.get("type").and_then(Value::as_str).ok_or("a content part needs a `type`")?;
        let key = match kind {
            "text" | "refusal" | "thinking" => kind,
            "tool_reference" => "name",
            other => return Err(format!("this model does not take parts of type `{other}`")),
        };
        if fields.get("uuid").is_some_and(|uuid| !uuid.is_null()) {
            return Err("only media have a `uuid`".to_owned());
        }
        let text = fields.get(key).and_then(Value::as_str).ok_or_else(|| missing(kind))?.to_owned();
        let kind = if kind == "tool_reference" { PartKind::ToolReference } else { PartKind::Text };
        let extra = fields.iter().filter(|(key, _)| !KNOWN_FIELDS.contains(&key.as_str()));
        Ok(Self { kind, text, extra: extra.map(|(key, value)| (key.clone(), value.clone())).collect() })
    }

    fn without_billing_header(self) -> Option<Self> {
        if !self.text.starts_with(BILLING_HEADER) {
            return Some(self);
        }
        let (_, rest) = self.text.split_once('\n')?;
        (!rest.is_empty()).then(|| Self { text: rest.to_owned(), ..self })
    }

    fn to_value(&self) -> Value {
        match self.kind {
            PartKind::Text => {
                let mut part = json!({"type": "text", "text": self.text});
                if let Some(fields) = part.as_object_mut() {
                    fields.extend(self.extra.clone());
                }
                part
            }
            PartKind::ToolReference => json!({"type": "tool_reference", "name": self.text}),
        }
    }
}

fn missing(kind: &str) -> String {
    format!("a part of type `{kind}` has no text")
}

/// Content in the template's form. Where that is a string, empty parts leave no line; tool results are a string in
/// either form, unless they refer to tools, and there empty parts do.
fn content(parts: &[Part], format: ContentFormat, role: &str) -> Value {
    let joined = |texts: Vec<&str>| Value::String(texts.join("\n"));
    let texts = parts.iter().map(|part| part.text.as_str());
    let only_text = parts.iter().all(|part| part.kind == PartKind::Text);
    match format {
        ContentFormat::Text => joined(texts.filter(|text| !text.is_empty()).collect()),
        ContentFormat::Parts if role == "tool" && only_text => joined(texts.collect()),
        ContentFormat::Parts => parts.iter().map(Part::to_value).collect(),
    }
}

fn add_assistant_fields(prepared: &mut Map<String, Value>, fields: &Map<String, Value>) -> Result<(), String> {
    if let Some(calls) = fields.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty()) {
        let calls = calls.iter().map(tool_call).collect::<Result<Vec<_>, _>>()?;
        prepared.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    let given = |key: &str| fields.get(key).filter(|value| !value.is_null());
    if let Some(reasoning) = given("reasoning").or_else(|| given("reasoning_content")) {
        prepared.insert("reasoning".to_owned(), reasoning.clone());
        prepared.insert("reasoning_content".to_owned(), reasoning.clone());
    }
    Ok(())
}

/// A call in the order of the API's own type. Arguments come as text and reach the template as an object; what is not
/// one becomes an empty one.
fn tool_call(call: &Value) -> Result<Value, String> {
    if call.get("type") != Some(&json!("function")) {
        return Err("only tool calls of type `function` are supported".to_owned());
    }
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).map(str::to_owned).ok_or(format!("a tool call needs a string `{key}`"))
    };
    let function = call.get("function").ok_or("a tool call needs an object `function`")?;
    let arguments: Option<Value> = serde_json::from_str(&text(function, "arguments")?).ok().filter(Value::is_object);
    let mut written = json!({"arguments": arguments.unwrap_or_else(|| json!({})), "name": text(function, "name")?});
    add_unknown(&mut written, function);
    let mut written = json!({"id": text(call, "id")?, "function": written, "type": "function"});
    add_unknown(&mut written, call);
    Ok(written)
}

/// Fields that the API does not know follow the known ones.
fn add_unknown(written: &mut Value, given: &Value) {
    let (Some(written), Some(given)) = (written.as_object_mut(), given.as_object()) else { return };
    for (key, value) in given {
        written.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// For templates that do not know developers: their messages become system messages, and if that makes a system
/// message that is not the first one, all are joined into one at the front.
fn with_one_system_message(mut messages: Vec<Value>) -> Vec<Value> {
    for message in &mut messages {
        if message["role"] == "developer" {
            message["role"] = json!("system");
            message.as_object_mut().map(|fields| fields.shift_remove("tools"));
        }
    }
    let system = |message: &Value| message["role"] == "system";
    if messages.iter().skip(1).all(|message| !system(message)) {
        return messages;
    }
    let texts: Vec<String> =
        messages.iter().filter(|message| system(message)).map(text_of).filter(|text| !text.is_empty()).collect();
    let mut joined = vec![json!({"role": "system", "content": texts.join("\n\n")})];
    joined.extend(messages.into_iter().filter(|message| !system(message)));
    joined
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<&str>>().join("\n"),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}
