//! Messages of a chat body.

use std::sync::Arc;

use minijinja::Value;

use crate::openai::chat::{Content, Message};
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::BodyError;
use crate::openai::value::DictBuilder;

use super::content;

const FIELD: &str = "messages";

/// The messages, and whether any has an image, audio or video.
pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<(Vec<Message>, bool), BodyError> {
    if cursor.peek()? != Kind::Array {
        return Err(BodyError::field(FIELD, "must be a list"));
    }
    let mut messages = Vec::new();
    let mut media = false;
    cursor.array(|cursor| -> Result<(), BodyError> {
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
    cursor.object(|cursor, key| -> Result<(), BodyError> {
        match &*key {
            "role" => {
                let text = cursor.optional_text(FIELD)?;
                role = Some(Value::from(text.ok_or_else(|| BodyError::field(FIELD, "`role` must be a string"))?));
            }
            "content" => content = content::read(cursor, media)?,
            _ => fields.insert(Value::from(key), cursor.value()?),
        }
        Ok(())
    })?;
    let role = role.ok_or_else(|| BodyError::field(FIELD, "a message has no `role`"))?;
    Ok(Message { role, content, fields: Arc::new(fields.build()) })
}
