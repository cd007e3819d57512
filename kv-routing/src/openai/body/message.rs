//! Messages of a chat body.

use std::sync::Arc;

use minijinja::Value;

use crate::openai::chat::{Content, Message};
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::BodyError;
use crate::openai::value::{Dict, DictBuilder, List};

use super::content;

const FIELD: &str = "messages";

/// The messages, and whether any has an image, audio or video.
pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<(Vec<Message>, bool), BodyError> {
    if cursor.peek()? != Kind::Array {
        return Err(BodyError::field(FIELD, "must be a list"));
    }
    let mut messages = Vec::new();
    let mut media = false;
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        messages.push(one(cursor, &mut media)?);
        Ok(())
    })?;
    Ok((messages, media))
}

fn one(cursor: &mut Cursor<'_>, media: &mut bool) -> Result<Message, BodyError> {
    cursor.keep()?;
    if cursor.peek()? != Kind::Object {
        return Err(BodyError::field(FIELD, "a message must be an object"));
    }
    let mut role: Option<Value> = None;
    let mut content = Content::Absent;
    let mut fields = DictBuilder::default();
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "role" => {
                let text = cursor.optional_text(FIELD)?;
                role = Some(Value::from(text.ok_or_else(|| BodyError::field(FIELD, "`role` must be a string"))?));
            }
            "content" => content = content::read(cursor, media)?,
            "tool_calls" => fields.set("tool_calls", in_api_order(&cursor.value()?)),
            _ => fields.insert(Value::from(key), cursor.value()?),
        }
        Ok(())
    })?;
    let role = role.ok_or_else(|| BodyError::field(FIELD, "a message has no `role`"))?;
    Ok(Message { role, content, fields: Arc::new(fields.build()) })
}

/// A message with nothing but a role and a content.
pub(super) fn plain(role: &str, content: Content) -> Message {
    Message { role: Value::from(role), content, fields: Arc::default() }
}

/// Takes a field off a message.
pub(super) fn remove(message: &mut Message, name: &str) {
    if message.fields.get(name).is_none() {
        return;
    }
    let mut rest = DictBuilder::default();
    for (key, value) in message.fields.iter().filter(|(key, _)| *key != name) {
        rest.set(key, value.clone());
    }
    message.fields = Arc::new(rest.build());
}

/// Tool calls with the fields that the API knows in its order, then whatever else was sent: so do the engines' request
/// types put them, and templates print them.
fn in_api_order(calls: &Value) -> Value {
    let Some(calls) = calls.downcast_object_ref::<List>() else { return calls.clone() };
    let ordered = calls.items().iter().map(|call| {
        let Some(call) = call.downcast_object_ref::<Dict>() else { return call.clone() };
        let mut made = DictBuilder::default();
        for (name, value) in ordered_fields(call, &["id", "function", "type"]) {
            match value.downcast_object_ref::<Dict>().filter(|_| name == "function") {
                Some(function) => {
                    let mut inner = DictBuilder::default();
                    for (name, value) in ordered_fields(function, &["arguments", "name"]) {
                        inner.set(name, value.clone());
                    }
                    made.set(name, inner.finish());
                }
                None => made.set(name, value.clone()),
            }
        }
        made.finish()
    });
    List::value(ordered.collect())
}

fn ordered_fields<'d>(dict: &'d Dict, first: &'d [&'d str]) -> impl Iterator<Item = (&'d str, &'d Value)> {
    let known = first.iter().filter_map(|name| Some((*name, dict.get(name)?)));
    known.chain(dict.iter().filter(|(name, _)| !first.contains(name)))
}
