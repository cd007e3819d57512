//! From the messages of a chat request to the prompt text: vLLM's preparation, then the template.

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::template::{ChatTemplate, TemplateError};
use super::{Model, messages, tools};

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
    /// An argument that clients may not set.
    #[error("Found unexpected chat template kwargs from request: {0}")]
    Argument(&'static str),
    /// Nothing to continue, or the template does not show it.
    #[error(
        "continue_final_message is set but the final message does not appear in the chat after applying the chat template"
    )]
    NotContinued,
    /// An empty conversation.
    #[error("messages must not be empty")]
    NoMessages,
    /// An empty list of tools.
    #[error("tools must not be an empty list: leave it out")]
    NoTools,
    /// Tools that do not have the shape of the API.
    #[error("tools[{index}]: {reason}")]
    Tool {
        /// Position in `tools`.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// The template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// The parts of a chat request that make its prompt, under their names in the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChatPrompt {
    /// The conversation.
    pub messages: Vec<Value>,
    /// Functions the model may call.
    pub tools: Option<Vec<Value>>,
    /// Documents for templates that take them.
    pub documents: Option<Vec<Value>>,
    /// Whether the prompt ends with the head of an answer; true when absent.
    pub add_generation_prompt: Option<bool>,
    /// Whether the answer continues the last message.
    pub continue_final_message: Option<bool>,
    /// Further template variables.
    pub chat_template_kwargs: Option<Map<String, Value>>,
    /// Another template variable; also decides `enable_thinking` where the client does not.
    pub reasoning_effort: Option<Value>,
    /// A template of the client's own: not served.
    pub chat_template: Option<String>,
    /// The prompt's tokens, where a prefill engine has computed them already (TensorRT-LLM).
    pub prompt_token_ids: Option<Vec<u32>>,
}

impl Model {
    /// The prompt text of a chat request.
    ///
    /// # Errors
    /// When the messages or the template do not allow it.
    pub fn render_chat(&self, prompt: &ChatPrompt) -> Result<String, ChatError> {
        self.template().ok_or(ChatError::NoTemplate)?.render_chat(prompt, SystemTime::now())
    }
}

impl ChatTemplate {
    /// The prompt text of a chat request made at `now`.
    ///
    /// # Errors
    /// When the messages or the template do not allow it.
    pub fn render_chat(&self, prompt: &ChatPrompt, now: SystemTime) -> Result<String, ChatError> {
        let add_generation_prompt = prompt.add_generation_prompt.unwrap_or(true);
        let continue_final_message = prompt.continue_final_message.unwrap_or(false);
        if continue_final_message && add_generation_prompt {
            return Err(ChatError::GenerationConflict);
        }
        if prompt.messages.is_empty() {
            return Err(ChatError::NoMessages);
        }
        let mut messages = messages::prepare(&prompt.messages, self)?;
        let continued = if continue_final_message { Some(mark_final_message(&mut messages)?) } else { None };
        let mut variables = Map::new();
        variables.insert("messages".to_owned(), Value::Array(messages));
        variables.insert("tools".to_owned(), prompt.tools.as_deref().map(tools::prepare).transpose()?.into());
        variables.insert("documents".to_owned(), json!(prompt.documents));
        variables.extend(self.arguments(prompt)?);
        variables.insert("add_generation_prompt".to_owned(), Value::Bool(add_generation_prompt));
        let text = self.render(variables, now)?;
        match continued {
            Some(message) => end_with_final_message(text, &message),
            None => Ok(text),
        }
    }

    /// Template variables of the request: `chat_template_kwargs`, over which the request's own fields win. Null and
    /// `"auto"` mean unset.
    fn arguments(&self, prompt: &ChatPrompt) -> Result<Map<String, Value>, ChatError> {
        let given = prompt.chat_template_kwargs.clone().unwrap_or_default();
        if let Some(name) = ["chat_template", "tokenize"].iter().find(|name| given.contains_key(**name)) {
            return Err(ChatError::Argument(name));
        }
        if prompt.chat_template.is_some() {
            return Err(ChatError::Argument("chat_template"));
        }
        let is_set = |value: &Value| !value.is_null() && value != "auto";
        let thinking_given = given.contains_key("enable_thinking");
        let mut arguments: Map<String, Value> = given.into_iter().filter(|(_, value)| is_set(value)).collect();
        if let Some(documents) = &prompt.documents {
            arguments.insert("documents".to_owned(), json!(documents));
        }
        if let Some(effort) = prompt.reasoning_effort.as_ref().filter(|effort| is_set(effort)) {
            if !thinking_given {
                arguments.insert("enable_thinking".to_owned(), Value::Bool(effort != "none"));
            }
            arguments.insert("reasoning_effort".to_owned(), effort.clone());
        }
        Ok(arguments)
    }
}

/// Appended to the message that is to be continued, to find its end in the rendered prompt.
const CONTINUE_HERE: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Marks the end of the last message's text; returns that text.
fn mark_final_message(messages: &mut [Value]) -> Result<String, ChatError> {
    let content = messages.last_mut().and_then(|message| message.get_mut("content")).ok_or(ChatError::NotContinued)?;
    let text = match content {
        Value::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")),
        other => Some(other),
    };
    let Some(Value::String(text)) = text else { return Err(ChatError::NotContinued) };
    let plain = text.clone();
    text.push_str(CONTINUE_HERE);
    Ok(plain)
}

/// Ends the prompt where the marked message ends.
fn end_with_final_message(text: String, message: &str) -> Result<String, ChatError> {
    let mark = text.rfind(CONTINUE_HERE.trim()).filter(|_| text.contains(message.trim()));
    let Some(end) = mark else { return Err(ChatError::NotContinued) };
    // A template that trims the message has trimmed the space after the mark, too.
    let kept = &text[..end];
    Ok(if text[end..].starts_with(CONTINUE_HERE) { kept } else { kept.trim_end() }.to_owned())
}
