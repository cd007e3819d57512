//! `/v1/responses`, mapped to a chat as vLLM does.

use std::borrow::Cow;

use minijinja::Value;

use crate::openai::chat::{Content, Message};
use crate::openai::endpoint::Endpoint;
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::{BodyError, Inexact, InferenceRequest};
use crate::openai::value::{Dict, DictBuilder, List};

use super::chat::ChatFields;
use super::message::plain;
use super::responses_items::Conversation;

const FIELD: &str = "input";

/// What a body has beside the fields of a chat.
#[derive(Debug, Default)]
struct Fields<'a> {
    instructions: Option<Cow<'a, str>>,
    conversation: Conversation,
    given: bool,
    stored: bool,
    tools: Option<Value>,
}

/// `/v1/responses`.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::Responses);
    let mut chat = ChatFields::default();
    let mut fields = Fields::default();
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "input" => fields.input(cursor)?,
            "instructions" => fields.instructions = cursor.optional_text("instructions")?,
            "previous_response_id" | "conversation" | "prompt" => {
                fields.stored |= cursor.peek()? != Kind::Null;
                cursor.skip()?;
            }
            "truncation" => {
                if cursor.optional_text("truncation")?.as_deref() == Some("auto") {
                    request.approximate(Inexact::Truncated);
                }
            }
            "tools" => fields.tools = tools(cursor)?,
            "reasoning" => chat.input.reasoning_effort = effort(cursor, "effort")?,
            "max_output_tokens" => request.max_tokens = cursor.lax_u32()?,
            "tool_choice" | "chat_template_kwargs" => {
                chat.read(cursor, &key)?;
            }
            _ if request.read_common(cursor, &key)? => {}
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    // vLLM has the tokenizer add its tokens although the template writes them too, and the body cannot say otherwise.
    request.add_special_tokens = true;
    if fields.given {
        fields.into_chat(&mut chat, &mut request);
        chat.into_request(&mut request);
    }
    Ok(request)
}

impl Fields<'_> {
    fn input(&mut self, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
        self.conversation = Conversation::default();
        match cursor.peek()? {
            Kind::String => self.conversation.push(plain("user", Content::Text(cursor.string_value()?))),
            Kind::Array => self.conversation.read(cursor)?,
            _ => return Err(BodyError::field(FIELD, "must be text or a list of items")),
        }
        self.given = true;
        Ok(())
    }

    fn into_chat<'a>(self, chat: &mut ChatFields<'a>, request: &mut InferenceRequest<'a>) {
        let (messages, end) = self.conversation.finish();
        let instructions = self.instructions.filter(|text| !text.is_empty());
        let first = instructions.map(|text| plain("system", Content::Text(Value::from(text))));
        chat.input.messages = first.into_iter().chain(messages).collect();
        chat.input.continue_final_message = end.open;
        chat.input.add_generation_prompt = !end.open;
        chat.input.tools = self.tools;
        chat.media = end.media;
        if self.stored {
            request.approximate(Inexact::StoredHistory);
        } else if end.untranslated {
            request.approximate(Inexact::Untranslated);
        }
    }
}

/// `{"effort": ...}`; of anything else nothing.
pub(super) fn effort<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Option<Cow<'a, str>>, BodyError> {
    let mut effort = None;
    if cursor.peek()? != Kind::Object {
        cursor.skip()?;
        return Ok(None);
    }
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        if key == field {
            effort = cursor.optional_text(field)?;
            return Ok(());
        }
        Ok(cursor.skip()?)
    })?;
    Ok(effort)
}

/// Function tools in the shape of a chat's: flat ones nested, those of a namespace named after it, custom ones as
/// functions of one text. Tools that the engine runs itself are not shown to the model.
fn tools(cursor: &mut Cursor<'_>) -> Result<Option<Value>, BodyError> {
    if cursor.peek()? == Kind::Null {
        cursor.null()?;
        return Ok(None);
    }
    if cursor.peek()? != Kind::Array {
        return Err(BodyError::field("tools", "must be a list"));
    }
    let mut shown = Vec::new();
    let mut any = false;
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        let tool = cursor.value()?;
        any = true;
        if let Some(tool) = tool.downcast_object_ref::<Dict>() {
            show(tool, &mut shown);
        }
        Ok(())
    })?;
    Ok(any.then(|| List::value(shown)))
}

fn show(tool: &Dict, shown: &mut Vec<Value>) {
    let name = tool.get("name").and_then(|name| name.as_str()).unwrap_or_default();
    match tool.get("type").and_then(|kind| kind.as_str()) {
        Some("function") => shown.push(nested(tool, name)),
        Some("namespace") => {
            let inner = tool.get("tools").and_then(|tools| tools.try_iter().ok());
            for one in inner.into_iter().flatten() {
                let Some(one) = one.downcast_object_ref::<Dict>() else { continue };
                let local = one.get("name").and_then(|name| name.as_str()).unwrap_or_default();
                if one.get("type").and_then(|kind| kind.as_str()) == Some("function") {
                    shown.push(nested(one, &flat_name(name, local)));
                }
            }
        }
        Some("custom") => shown.push(custom(tool, name)),
        _ => {}
    }
}

/// Name of a function of a namespace, as the model sees it.
pub(super) fn flat_name(namespace: &str, name: &str) -> String {
    format!("{namespace}__{name}")
}

fn nested(tool: &Dict, name: &str) -> Value {
    let mut function = DictBuilder::default();
    function.set("name", name);
    for (key, value) in tool.iter().filter(|(key, _)| !matches!(*key, "type" | "name")) {
        function.set(key, value.clone());
    }
    wrapped(function)
}

fn wrapped(function: DictBuilder) -> Value {
    let mut tool = DictBuilder::default();
    tool.set("type", "function");
    tool.set("function", function.finish());
    tool.finish()
}

fn custom(tool: &Dict, name: &str) -> Value {
    let mut input = DictBuilder::default();
    input.set("type", "string");
    input.set("description", "The freeform text payload for this tool.");
    let mut properties = DictBuilder::default();
    properties.set("input", input.finish());
    let mut parameters = DictBuilder::default();
    parameters.set("type", "object");
    parameters.set("properties", properties.finish());
    parameters.set("required", List::value(vec![Value::from("input")]));
    parameters.set("additionalProperties", false);
    let mut function = DictBuilder::default();
    function.set("name", name);
    function.set("description", tool.get("description").cloned().unwrap_or_else(|| Value::from(())));
    function.set("parameters", parameters.finish());
    wrapped(function)
}

/// The message as it is, when nothing has to be merged into it.
pub(super) fn message(role: Value, content: Content, fields: DictBuilder) -> Message {
    Message { role, content, fields: std::sync::Arc::new(fields.build()) }
}
