//! `continue_final_message`: a prompt that ends within its last message.
//!
//! As `transformers` does it: a mark is put at the end of that message, and the rendered text is cut where it stands.

use std::sync::Arc;

use minijinja::Value;

use super::error::RenderError;
use super::methods::python_space;
use super::render::TemplateInput;
use crate::openai::value::{Dict, DictBuilder, List};

const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A prompt to be cut at its mark.
#[derive(Debug)]
pub(super) struct OpenEnd {
    final_text: String,
}

/// Marks the end of the last message when the input says it stays open.
pub(super) fn mark(
    mut messages: Vec<Value>,
    input: &TemplateInput,
    source: &str,
) -> Result<(Vec<Value>, Option<OpenEnd>), RenderError> {
    if !input.continue_final_message {
        return Ok((messages, None));
    }
    if input.add_generation_prompt {
        return Err(RenderError::Refused("continue_final_message together with add_generation_prompt"));
    }
    let last = messages.pop().ok_or(RenderError::Refused("continue_final_message without messages"))?;
    let content = last.get_attr("content").ok().filter(|content| !content.is_none() && !content.is_undefined());
    let content = content.ok_or(RenderError::Refused("continue_final_message when the last message has no content"))?;
    if !source.contains("content") {
        return Err(RenderError::Refused("continue_final_message: the template has no content"));
    }
    let (marked, final_text) = match content.as_str() {
        Some(text) => (Value::from(format!("{text}{MARK}")), text.to_owned()),
        None => mark_parts(&content)?,
    };
    messages.push(with_field(&last, "content", marked));
    Ok((messages, Some(OpenEnd { final_text })))
}

/// Marks the last part that has text.
fn mark_parts(content: &Value) -> Result<(Value, String), RenderError> {
    let refused = RenderError::Refused("continue_final_message when the last message has no text");
    let mut parts: Vec<Value> = content.try_iter().map_err(|_| refused.clone())?.collect();
    for part in parts.iter_mut().rev() {
        if let Some(text) = part.get_attr("text").ok().filter(|text| !text.is_undefined()) {
            let text = text.as_str().ok_or(refused)?.to_owned();
            *part = with_field(part, "text", Value::from(format!("{text}{MARK}")));
            return Ok((List::value(parts), text));
        }
    }
    Err(refused)
}

/// A copy of a dict with one field replaced.
pub(super) fn with_field(dict: &Value, name: &str, value: Value) -> Value {
    let mut copy = DictBuilder::default();
    if let Some(dict) = dict.downcast_object::<Dict>() {
        copy = DictBuilder::from(&*Arc::clone(&dict));
    }
    copy.set(name, value);
    copy.finish()
}

impl OpenEnd {
    /// Cuts the text at the mark.
    pub(super) fn cut(&self, mut text: String) -> Result<String, RenderError> {
        let bare = MARK.trim_end();
        let kept = text.contains(self.final_text.trim_matches(python_space));
        let Some(at) = text.rfind(bare).filter(|_| kept) else {
            return Err(RenderError::Refused("continue_final_message: the template drops the last message"));
        };
        let spaced = text.get(at..).is_some_and(|end| end.starts_with(MARK));
        text.truncate(at);
        if !spaced {
            // The template trimmed the message; trailing white space of it is gone in the engine too.
            let trimmed = text.trim_end_matches(python_space).len();
            text.truncate(trimmed);
        }
        Ok(text)
    }
}
