//! `/v1/chat/completions`.

use crate::openai::chat::{ChatInput, ToolChoice};
use crate::openai::endpoint::Endpoint;
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::{BodyError, InferenceRequest, PromptInput};

use super::common::OutputBound;
use super::message;

/// `/v1/chat/completions`.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::ChatCompletions);
    let mut chat = ChatFields::default();
    let mut bound = OutputBound::default();
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        if !(request.read_common(cursor, &key)? || bound.read(cursor, &key)? || chat.read(cursor, &key)?) {
            cursor.skip()?;
        }
        Ok(())
    })?;
    request.max_tokens = bound.get();
    if chat.input.tools.as_ref().is_some_and(|tools| tools.len() == Some(0)) {
        return Err(BodyError::field("tools", "must not be empty"));
    }
    if chat.given {
        chat.into_request(&mut request);
    }
    Ok(request)
}

/// The fields of a chat body that a template sees.
#[derive(Debug, Default)]
pub(super) struct ChatFields<'a> {
    pub(super) input: ChatInput<'a>,
    /// Whether there are `messages` at all.
    pub(super) given: bool,
    /// Whether any message has an image, audio or video.
    pub(super) media: bool,
}

impl<'a> ChatFields<'a> {
    /// Reads the value of `key` when it is one of them; false leaves the value unread.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<bool, BodyError> {
        let input = &mut self.input;
        match key {
            "messages" => {
                (input.messages, self.media) = message::list(cursor)?;
                self.given = true;
            }
            "tools" => input.tools = optional(cursor, Kind::Array, "tools", "must be a list")?,
            "documents" => input.documents = optional(cursor, Kind::Array, "documents", "must be a list")?,
            "chat_template_kwargs" => {
                input.template_kwargs = optional(cursor, Kind::Object, "chat_template_kwargs", "must be an object")?;
            }
            "tool_choice" => input.tool_choice = tool_choice(cursor)?,
            "chat_template" => input.chat_template = cursor.optional_text("chat_template")?,
            "add_generation_prompt" => input.add_generation_prompt = cursor.flag("add_generation_prompt")?,
            "continue_final_message" => input.continue_final_message = cursor.flag("continue_final_message")?,
            "reasoning_effort" => input.reasoning_effort = cursor.optional_text("reasoning_effort")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes it the prompt of `request`.
    pub(super) fn into_request(self, request: &mut InferenceRequest<'a>) {
        if self.media {
            request.has_media();
        }
        request.prompts = 1;
        request.prompt = PromptInput::Chat(Box::new(self.input));
    }
}

/// A value of one kind, or null.
fn optional(
    cursor: &mut Cursor<'_>,
    kind: Kind,
    field: &'static str,
    problem: &'static str,
) -> Result<Option<minijinja::Value>, BodyError> {
    let found = cursor.peek()?;
    if found == Kind::Null {
        cursor.null()?;
        return Ok(None);
    }
    if found != kind {
        return Err(BodyError::field(field, problem));
    }
    Ok(Some(cursor.value()?))
}

fn tool_choice(cursor: &mut Cursor<'_>) -> Result<ToolChoice, BodyError> {
    match cursor.peek()? {
        Kind::Null => {
            cursor.null()?;
            Ok(ToolChoice::Absent)
        }
        Kind::String if cursor.string()? == "none" => Ok(ToolChoice::None),
        Kind::String => Ok(ToolChoice::Some),
        _ => {
            cursor.skip()?;
            Ok(ToolChoice::Some)
        }
    }
}
