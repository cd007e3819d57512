//! From the messages of a chat request to the prompt text: vLLM's preparation, then the template.

use serde_json::{Map, Value, json};

use super::Model;
use super::content_format::ContentFormat;
use super::template::TemplateError;

/// A chat request that cannot be rendered. All are the client's fault (400).
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// No template in the model folder.
    #[error(
        "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if \
         the tokenizer does not define one."
    )]
    NoTemplate,
    /// Messages that do not have the shape of the API.
    #[error("messages[{index}]: {reason}")]
    Message {
        /// Position in `messages`.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// Mutually exclusive options.
    #[error("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")]
    GenerationConflict,
    /// The template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// The parts of a chat request that make its prompt.
#[derive(Clone, Debug, Default)]
pub struct ChatPrompt {
    /// `messages`.
    pub messages: Vec<Value>,
    /// `tools`.
    pub tools: Option<Vec<Value>>,
    /// `documents`.
    pub documents: Option<Vec<Value>>,
    /// `add_generation_prompt` (true in the API when absent).
    pub add_generation_prompt: bool,
    /// `continue_final_message`.
    pub continue_final_message: bool,
    /// `chat_template_kwargs`, `reasoning_effort` included.
    pub template_arguments: Map<String, Value>,
}

impl Model {
    /// The prompt text of a chat request.
    ///
    /// # Errors
    /// When the messages or the template do not allow it.
    pub fn render_chat(&self, prompt: &ChatPrompt) -> Result<String, ChatError> {
        let template = self.template().ok_or(ChatError::NoTemplate)?;
        if prompt.continue_final_message && prompt.add_generation_prompt {
            return Err(ChatError::GenerationConflict);
        }
        let format = template.content_format();
        let messages = prompt
            .messages
            .iter()
            .enumerate()
            .map(|(index, message)| {
                prepare_message(message, format).map_err(|reason| ChatError::Message { index, reason })
            })
            .collect::<Result<Vec<Value>, ChatError>>()?;
        let last = messages.last().cloned();
        let mut variables = Map::new();
        variables.insert("messages".to_owned(), Value::Array(messages));
        variables.insert("tools".to_owned(), prompt.tools.as_ref().map_or(Value::Null, |tools| prepare_tools(tools)));
        variables.insert("documents".to_owned(), json!(prompt.documents));
        variables.insert("add_generation_prompt".to_owned(), Value::Bool(prompt.add_generation_prompt));
        variables.extend(prompt.template_arguments.clone());
        let text = template.render(variables)?;
        Ok(match last.filter(|_| prompt.continue_final_message) {
            Some(last) => cut_after_final_message(text, &last),
            None => text,
        })
    }
}

/// The fields vLLM passes on, with content in the form the template wants.
fn prepare_message(message: &Value, format: ContentFormat) -> Result<Value, String> {
    let fields = message.as_object().ok_or("must be an object")?;
    let role = fields.get("role").and_then(Value::as_str).ok_or("needs a string `role`")?;
    let mut prepared = Map::new();
    prepared.insert("role".to_owned(), Value::String(role.to_owned()));
    prepared.insert("content".to_owned(), prepare_content(fields.get("content"), format)?);
    if role == "assistant" {
        if let Some(calls) = fields.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty()) {
            let calls = calls.iter().map(prepare_tool_call).collect::<Result<Vec<_>, _>>()?;
            prepared.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let reasoning = ["reasoning", "reasoning_content"].iter().find_map(|key| fields.get(*key));
        if let Some(reasoning) = reasoning.filter(|value| value.is_string()) {
            prepared.insert("reasoning".to_owned(), reasoning.clone());
            prepared.insert("reasoning_content".to_owned(), reasoning.clone());
        }
    }
    if role == "tool"
        && let Some(id) = fields.get("tool_call_id")
    {
        prepared.insert("tool_call_id".to_owned(), id.clone());
    }
    if let Some(name) = fields.get("name").filter(|name| name.is_string()) {
        prepared.insert("name".to_owned(), name.clone());
    }
    Ok(Value::Object(prepared))
}

fn prepare_content(content: Option<&Value>, format: ContentFormat) -> Result<Value, String> {
    let texts = match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(parts)) => parts.iter().map(part_text).collect::<Result<_, _>>()?,
        Some(_) => return Err("`content` must be a string or a list of parts".to_owned()),
    };
    Ok(match format {
        ContentFormat::Text => Value::String(texts.join("\n")),
        ContentFormat::Parts => texts.into_iter().map(|text| json!({"type": "text", "text": text})).collect(),
    })
}

fn part_text(part: &Value) -> Result<String, String> {
    if let Value::String(text) = part {
        return Ok(text.clone());
    }
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    match kind {
        "text" | "input_text" | "output_text" | "refusal" | "thinking" => {
            let key = if matches!(kind, "refusal" | "thinking") { kind } else { "text" };
            part.get(key)
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(|| format!("a part of type `{kind}` needs a string `{key}`"))
        }
        other => Err(format!("this model does not take parts of type `{other}`")),
    }
}

/// Arguments reach the template as an object, whatever form the client used.
fn prepare_tool_call(call: &Value) -> Result<Value, String> {
    let mut call = call.clone();
    let function =
        call.get_mut("function").and_then(Value::as_object_mut).ok_or("a tool call needs an object `function`")?;
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) if !text.is_empty() => {
            serde_json::from_str(text).map_err(|error| format!("tool call arguments are not JSON: {error}"))?
        }
        Some(value @ (Value::Object(_) | Value::Array(_))) => value.clone(),
        _ => json!({}),
    };
    function.insert("arguments".to_owned(), arguments);
    Ok(call)
}

/// Tools as vLLM's request model writes them back: its own fields first, absent ones as null.
fn prepare_tools(tools: &[Value]) -> Value {
    tools
        .iter()
        .map(|tool| {
            let function = tool.get("function").and_then(Value::as_object).cloned().unwrap_or_default();
            let mut written = Map::new();
            for key in ["name", "description", "parameters"] {
                written.insert(key.to_owned(), function.get(key).cloned().unwrap_or(Value::Null));
            }
            written.extend(function);
            let mut entry = Map::new();
            entry.insert("type".to_owned(), tool.get("type").cloned().unwrap_or_else(|| json!("function")));
            entry.insert("function".to_owned(), Value::Object(written));
            Value::Object(entry)
        })
        .collect()
}

/// Ends the prompt with the final message's own text, so that the answer continues it.
fn cut_after_final_message(text: String, last: &Value) -> String {
    let content = match &last["content"] {
        Value::Array(parts) => parts.last().and_then(|part| part["text"].as_str()).unwrap_or_default(),
        other => other.as_str().unwrap_or_default(),
    };
    let content = content.trim();
    match text.rfind(content) {
        Some(start) => text[..start + content.len()].to_owned(),
        None => text,
    }
}
