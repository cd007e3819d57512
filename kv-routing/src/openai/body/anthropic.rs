//! `/v1/messages`, mapped to a chat as vLLM does.

use std::borrow::Cow;

use minijinja::Value;

use crate::openai::chat::{Anthropic, Content, ToolChoice};
use crate::openai::endpoint::Endpoint;
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::{BodyError, Inexact, InferenceRequest};
use crate::openai::value::{Dict, DictBuilder, List};

use super::anthropic_blocks::Conversation;
use super::chat::ChatFields;
use super::message::plain;
use super::responses::effort;

/// What a body has beside the fields of a chat.
#[derive(Debug, Default)]
struct Fields<'a> {
    system: String,
    conversation: Conversation,
    given: bool,
    effort: Option<Cow<'a, str>>,
    thinking_disabled: bool,
}

/// `/v1/messages`.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::Messages);
    let mut chat = ChatFields::default();
    let mut fields = Fields::default();
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "system" => fields.system = system(cursor)?,
            "messages" => {
                fields.conversation = Conversation::read(cursor)?;
                fields.given = true;
            }
            "tools" => chat.input.tools = tools(cursor)?,
            "tool_choice" => chat.input.tool_choice = tool_choice(cursor)?,
            "output_config" => fields.effort = effort(cursor, "effort")?,
            "thinking" => fields.thinking_disabled = effort(cursor, "type")?.as_deref() == Some("disabled"),
            "metadata" => request.user = effort(cursor, "user_id")?,
            "max_tokens" => request.max_tokens = cursor.lax_u32()?,
            "chat_template_kwargs" => {
                chat.read(cursor, &key)?;
            }
            _ if request.read_common(cursor, &key)? => {}
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    // The body cannot say otherwise.
    request.add_special_tokens = false;
    if fields.given {
        fields.into_chat(&mut chat, &mut request);
        chat.into_request(&mut request);
    }
    Ok(request)
}

impl<'a> Fields<'a> {
    fn into_chat(self, chat: &mut ChatFields<'a>, request: &mut InferenceRequest<'a>) {
        let system = Content::Text(Value::from(self.system.as_str()));
        let first = (!self.system.is_empty()).then(|| plain("system", system));
        chat.input.messages = first.into_iter().chain(self.conversation.messages).collect();
        chat.input.anthropic = Some(Anthropic { thinking_disabled: self.thinking_disabled });
        chat.input.reasoning_effort = self.effort;
        chat.media = self.conversation.media;
        if self.conversation.untranslated {
            request.approximate(Inexact::Untranslated);
        }
    }
}

const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// Text of a block that counts: not empty, not Claude Code's attribution line.
pub(super) fn counted(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty() && !text.starts_with(BILLING_HEADER))
}

/// A string, or the texts of a list of blocks put together.
fn system(cursor: &mut Cursor<'_>) -> Result<String, BodyError> {
    match cursor.peek()? {
        Kind::String => Ok(cursor.string()?.into_owned()),
        Kind::Array => {
            let mut system = String::new();
            cursor.array(&mut |cursor| -> Result<(), BodyError> {
                let block = cursor.value()?;
                if block.get_attr("type").ok().as_ref().and_then(|kind| kind.as_str()) == Some("text") {
                    let text = block.get_attr("text").unwrap_or_default();
                    system.push_str(counted(text.as_str()).unwrap_or_default());
                }
                Ok(())
            })?;
            Ok(system)
        }
        Kind::Null => {
            cursor.null()?;
            Ok(String::new())
        }
        _ => Err(BodyError::field("system", "must be text or a list of blocks")),
    }
}

fn tool_choice(cursor: &mut Cursor<'_>) -> Result<ToolChoice, BodyError> {
    if cursor.peek()? == Kind::Null {
        cursor.null()?;
        return Ok(ToolChoice::Absent);
    }
    Ok(match effort(cursor, "type")?.as_deref() {
        Some("none") => ToolChoice::None,
        _ => ToolChoice::Some,
    })
}

/// Tools in the shape of a chat's.
fn tools(cursor: &mut Cursor<'_>) -> Result<Option<Value>, BodyError> {
    if cursor.peek()? == Kind::Null {
        cursor.null()?;
        return Ok(None);
    }
    if cursor.peek()? != Kind::Array {
        return Err(BodyError::field("tools", "must be a list"));
    }
    let mut tools = Vec::new();
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        let tool = cursor.value()?;
        let tool =
            tool.downcast_object_ref::<Dict>().ok_or_else(|| BodyError::field("tools", "a tool must be an object"))?;
        tools.push(one_tool(tool));
        Ok(())
    })?;
    Ok(Some(List::value(tools)))
}

fn one_tool(tool: &Dict) -> Value {
    let given = |name: &str| tool.get(name).cloned().unwrap_or_else(|| Value::from(()));
    let mut function = DictBuilder::default();
    function.set("name", given("name"));
    function.set("description", given("description"));
    let mut parameters = given("input_schema");
    if let Some(schema) = parameters.downcast_object_ref::<Dict>().filter(|schema| schema.get("type").is_none()) {
        let mut typed = DictBuilder::from(schema);
        typed.set("type", "object");
        parameters = typed.finish();
    }
    function.set("parameters", parameters);
    function.set("strict", given("strict"));
    function.set("defer_loading", given("defer_loading"));
    let mut wrapped = DictBuilder::default();
    wrapped.set("type", "function");
    wrapped.set("function", function.finish());
    wrapped.finish()
}
