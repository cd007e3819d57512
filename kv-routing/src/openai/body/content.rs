//! Content of a message: a string, or a list of parts. Payloads of images and the like are hashed where they lie.

use minijinja::Value;

use crate::openai::chat::{Content, MediaId, Part};
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::BodyError;
use crate::openai::value::DictBuilder;

const FIELD: &str = "messages";

/// Fields that hold an image, audio or video, or a reference to one.
const MEDIA: [&str; 12] = [
    "image_url",
    "input_image",
    "image",
    "image_pil",
    "image_embeds",
    "video_url",
    "video",
    "video_embeds",
    "audio_url",
    "audio",
    "input_audio",
    "audio_embeds",
];

/// Content, a string, a list or null.
pub(super) fn read(cursor: &mut Cursor<'_>, media: &mut bool) -> Result<Content, BodyError> {
    cursor.keep()?;
    match cursor.peek()? {
        Kind::String => Ok(Content::Text(cursor.string_value()?)),
        Kind::Null => {
            cursor.null()?;
            Ok(Content::Absent)
        }
        Kind::Array => {
            let mut parts = Vec::new();
            cursor.array(&mut |cursor| -> Result<(), BodyError> {
                let part = part(cursor)?;
                *media |= part.media.is_some();
                parts.push(part);
                Ok(())
            })?;
            Ok(Content::Parts(parts))
        }
        _ => Err(BodyError::field(FIELD, "`content` must be a string or a list")),
    }
}

fn part(cursor: &mut Cursor<'_>) -> Result<Part, BodyError> {
    cursor.keep()?;
    let mut fields = DictBuilder::default();
    match cursor.peek()? {
        Kind::String => {
            fields.set("type", "text");
            fields.set("text", cursor.string_value()?);
            return Ok(Part { fields: fields.build(), media: None });
        }
        Kind::Object => {}
        _ => return Err(BodyError::field(FIELD, "a content part must be an object or a string")),
    }
    let mut media = None;
    let mut uuid = None;
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        if MEDIA.contains(&&*key) {
            media = Some(payload(cursor)?);
            fields.insert(Value::from(key), Value::from(()));
            return Ok(());
        }
        let value = cursor.value()?;
        if key == "uuid" && !value.is_none() {
            uuid = Some(MediaId::of(&value.to_string()));
        }
        fields.insert(Value::from(key), value);
        Ok(())
    })?;
    Ok(Part { fields: fields.build(), media: media.map(|id| uuid.unwrap_or(id)) })
}

/// Names the item: by the string itself, or by the `url` or `data` of an object, whatever else is in it.
fn payload(cursor: &mut Cursor<'_>) -> Result<MediaId, BodyError> {
    let mut id = MediaId::of("");
    match cursor.peek()? {
        Kind::String => id = MediaId::of(&cursor.string()?),
        Kind::Object => cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
            if cursor.peek()? == Kind::String && matches!(&*key, "url" | "data" | "file_id" | "image_url") {
                id = MediaId::of(&cursor.string()?);
            } else {
                cursor.skip()?;
            }
            Ok(())
        })?,
        _ => cursor.skip()?,
    }
    Ok(id)
}
