//! What vLLM does to a request before the template sees it.

mod content;
mod normalize;
mod tools;
mod variables;

use minijinja::Value;

use super::config::ContentFormat;
use super::error::RenderError;
use super::render::{Renderer, TemplateInput};
use crate::openai::value::DictBuilder;
use crate::openai::{ChatInput, Message};
use crate::wire::UnixMillis;

pub(super) use normalize::for_transformers;
pub(super) use tools::tools;
pub(super) use variables::variables;

/// A request with everything but its messages made.
pub(super) struct Prepared<'r> {
    pub(super) renderer: &'r Renderer,
    pub(super) chat: &'r ChatInput<'r>,
    pub(super) format: ContentFormat,
    pub(super) developer_role: bool,
    pub(super) input: TemplateInput,
    pub(super) now: UnixMillis,
}

/// Whether the template has a developer role of its own; vLLM looks for the quoted word.
pub(super) fn knows_developer(template: &str) -> bool {
    template.contains("\"developer\"") || template.contains("'developer'")
}

/// The conversation as the template gets it. `stand_in` says what is put in the place of the n-th image, audio or video.
pub(super) fn conversation(
    prepared: &Prepared<'_>,
    stand_in: &mut dyn FnMut(usize) -> Option<String>,
) -> Result<Vec<Value>, RenderError> {
    let mut media = 0;
    let mut messages = Vec::with_capacity(prepared.chat.messages.len());
    for message in &prepared.chat.messages {
        let content = content::content(message, prepared.format, &mut media, stand_in)?;
        messages.push(Turn { role: message.role.clone(), content, message });
    }
    if !prepared.developer_role && messages.iter().any(|turn| turn.role.as_str() == Some("developer")) {
        return developer_to_system(messages);
    }
    messages.into_iter().map(Turn::into_value).collect()
}

/// One message with its content made.
struct Turn<'m> {
    role: Value,
    content: Value,
    message: &'m Message,
}

impl Turn<'_> {
    fn into_value(self) -> Result<Value, RenderError> {
        let fields = &self.message.fields;
        let role = self.role.as_str().unwrap_or_default();
        let mut out = DictBuilder::default();
        out.set("role", self.role.clone());
        out.set("content", self.content);
        match role {
            "assistant" => {
                let calls = fields.get("tool_calls").filter(|calls| !calls.is_none());
                if let Some(calls) = calls.map(tools::tool_calls).transpose()?.flatten() {
                    out.set("tool_calls", calls);
                }
                let reasoning = ["reasoning", "reasoning_content"]
                    .iter()
                    .find_map(|name| fields.get(name).filter(|reasoning| !reasoning.is_none()));
                if let Some(reasoning) = reasoning {
                    out.set("reasoning", reasoning.clone());
                    out.set("reasoning_content", reasoning.clone());
                }
            }
            "tool" => {
                if let Some(id) = fields.get("tool_call_id") {
                    out.set("tool_call_id", id.clone());
                }
            }
            _ => {}
        }
        for name in ["name", "task"] {
            if let Some(value) = fields.get(name).filter(|value| value.as_str().is_some()) {
                out.set(name, value.clone());
            }
        }
        if role == "developer" {
            out.set("tools", fields.get("tools").cloned().unwrap_or_else(|| Value::from(())));
        }
        Ok(out.finish())
    }
}

/// For templates without a developer role: it becomes the system's, and all system messages become one in front.
fn developer_to_system(turns: Vec<Turn<'_>>) -> Result<Vec<Value>, RenderError> {
    let is_system = |turn: &Turn<'_>| matches!(turn.role.as_str(), Some("system" | "developer"));
    let scattered = turns.iter().enumerate().any(|(index, turn)| index > 0 && is_system(turn));
    let mut texts: Vec<String> = Vec::new();
    let mut others = Vec::new();
    for mut turn in turns {
        if !is_system(&turn) {
            others.push(turn.into_value()?);
            continue;
        }
        turn.role = Value::from("system");
        if !scattered {
            others.push(turn.into_value()?);
            continue;
        }
        let text = system_text(&turn.content);
        if !text.is_empty() {
            texts.push(text);
        }
    }
    if scattered {
        let mut merged = DictBuilder::default();
        merged.set("role", "system");
        merged.set("content", texts.join("\n\n"));
        others.insert(0, merged.finish());
    }
    Ok(others)
}

fn system_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.try_iter().into_iter().flatten();
    let texts: Vec<String> = parts.filter_map(|part| part.get_attr("text").ok()?.as_str().map(str::to_owned)).collect();
    texts.join("\n")
}
