//! Messages of `/v1/messages` and their blocks to chat messages. A tool's result becomes a message of its own, in front
//! of the message it came in.

use minijinja::Value;

use crate::openai::chat::{Content, MediaId, Message, Part};
use crate::openai::json::{Cursor, JsonError, Kind};
use crate::openai::request::BodyError;
use crate::openai::value::{Dict, DictBuilder, List};

use super::anthropic::counted;
use super::message::plain;
use super::responses::message;

const FIELD: &str = "messages";

/// The chat messages.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// There are images.
    pub(super) media: bool,
    /// There is a block that has no translation here.
    pub(super) untranslated: bool,
}

/// One block, read; images are hashed where they lie.
struct Block {
    fields: Dict,
    image: Option<MediaId>,
    /// Blocks within a tool's result.
    content: Vec<Block>,
}

impl Block {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|value| value.as_str())
    }

    fn value(&self, name: &str) -> Value {
        self.fields.get(name).cloned().unwrap_or_else(|| Value::from(()))
    }
}

/// What the blocks of one message become.
#[derive(Default)]
struct Made {
    parts: Vec<Part>,
    calls: Vec<Value>,
    reasoning: Option<String>,
}

impl Conversation {
    /// Reads the list of messages.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, BodyError> {
        if cursor.peek()? != Kind::Array {
            return Err(BodyError::field(FIELD, "must be a list"));
        }
        let mut conversation = Self::default();
        cursor.array(&mut |cursor| conversation.message(cursor))?;
        Ok(conversation)
    }

    fn message(&mut self, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
        cursor.keep()?;
        if cursor.peek()? != Kind::Object {
            return Err(BodyError::field(FIELD, "a message must be an object"));
        }
        let mut role = None;
        let mut text = None;
        let mut blocks = Vec::new();
        cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
            match &*key {
                "role" => role = cursor.optional_text(FIELD)?,
                "content" if cursor.peek()? == Kind::String => text = Some(cursor.string_value()?),
                "content" => blocks = read_blocks(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let role = role.ok_or_else(|| BodyError::field(FIELD, "a message has no `role`"))?;
        match text {
            _ if role == "system" => self.system(text, &blocks),
            Some(text) => self.messages.push(plain(&role, Content::Text(text))),
            None => self.blocks(&role, blocks),
        }
        Ok(())
    }

    fn system(&mut self, text: Option<Value>, blocks: &[Block]) {
        let text = match text {
            Some(text) => counted(text.as_str()).unwrap_or_default().to_owned(),
            None => blocks
                .iter()
                .filter(|block| block.text("type") == Some("text"))
                .filter_map(|block| counted(block.text("text")))
                .collect(),
        };
        self.untranslated |= blocks.iter().any(|block| block.text("type") != Some("text"));
        if !text.is_empty() {
            self.messages.push(plain("system", Content::Text(Value::from(text))));
        }
    }

    fn blocks(&mut self, role: &str, blocks: Vec<Block>) {
        let mut made = Made::default();
        for block in blocks {
            self.block(role, block, &mut made);
        }
        let mut fields = DictBuilder::default();
        if let Some(reasoning) = made.reasoning {
            fields.set("reasoning", reasoning);
        }
        if !made.calls.is_empty() {
            fields.set("tool_calls", List::value(made.calls));
        }
        let content = match made.parts.as_slice() {
            [] if role == "user" => return,
            [] => Content::Absent,
            [Part { fields, media: None }] => Content::Text(fields.get("text").cloned().unwrap_or_default()),
            _ => Content::Parts(made.parts),
        };
        self.messages.push(message(Value::from(role), content, fields));
    }

    fn block(&mut self, role: &str, block: Block, made: &mut Made) {
        match block.text("type") {
            Some("text") => {
                let text = block.fields.get("text").filter(|text| text.as_str().is_some_and(|text| !text.is_empty()));
                made.parts.extend(text.map(|text| text_part(text.clone())));
            }
            Some("image") => made.parts.extend(block.image.map(|id| self.image_part(id))),
            Some("thinking") => {
                let thought = made.reasoning.get_or_insert_default();
                thought.push_str(block.text("thinking").unwrap_or_default());
            }
            Some("tool_use") => {
                // vLLM makes up an id of the time, which a template may print.
                self.untranslated |= block.text("id").is_none_or(str::is_empty);
                made.calls.push(tool_call(&block));
            }
            Some("tool_result") if role == "user" => self.tool_result(block),
            Some("redacted_thinking" | "tool_reference") => {}
            _ => self.untranslated = true,
        }
    }

    fn image_part(&mut self, id: MediaId) -> Part {
        self.media = true;
        let mut fields = DictBuilder::default();
        fields.set("type", "image_url");
        fields.set("image_url", Value::from(()));
        Part { fields: fields.build(), media: Some(id) }
    }

    /// The text of a result, then its images as a user's, then the tools it names.
    fn tool_result(&mut self, block: Block) {
        let id = block.fields.get("tool_use_id").filter(|id| !id.is_none()).cloned().unwrap_or_else(|| Value::from(""));
        let with_id = || {
            let mut fields = DictBuilder::default();
            fields.set("tool_call_id", id.clone());
            fields
        };
        let of_kind = |kind: &'static str| block.content.iter().filter(move |inner| inner.text("type") == Some(kind));
        let text = match block.text("content") {
            Some(text) => text.to_owned(),
            None => of_kind("text").map(|inner| inner.text("text").unwrap_or_default()).collect::<Vec<_>>().join("\n"),
        };
        self.messages.push(message(Value::from("tool"), Content::Text(Value::from(text)), with_id()));
        let images: Vec<MediaId> = of_kind("image").filter_map(|inner| inner.image).collect();
        if !images.is_empty() {
            let parts = images.into_iter().map(|id| self.image_part(id)).collect();
            self.messages.push(plain("user", Content::Parts(parts)));
        }
        let references: Vec<Part> = of_kind("tool_reference").filter_map(tool_reference).collect();
        if !references.is_empty() {
            self.messages.push(message(Value::from("tool"), Content::Parts(references), with_id()));
        }
    }
}

fn text_part(text: Value) -> Part {
    let mut fields = DictBuilder::default();
    fields.set("type", "text");
    fields.set("text", text);
    Part { fields: fields.build(), media: None }
}

fn tool_reference(block: &Block) -> Option<Part> {
    let name = ["tool_name", "name"].iter().find_map(|field| block.text(field).filter(|name| !name.is_empty()))?;
    let mut fields = DictBuilder::default();
    fields.set("type", "tool_reference");
    fields.set("name", name);
    Some(Part { fields: fields.build(), media: None })
}

fn tool_call(block: &Block) -> Value {
    let mut function = DictBuilder::default();
    function.set("arguments", block.value("input"));
    function.set("name", block.text("name").unwrap_or_default());
    let mut call = DictBuilder::default();
    call.set("id", block.value("id"));
    call.set("function", function.finish());
    call.set("type", "function");
    call.finish()
}

fn read_blocks(cursor: &mut Cursor<'_>) -> Result<Vec<Block>, BodyError> {
    if cursor.peek()? != Kind::Array {
        return Err(BodyError::field(FIELD, "`content` must be text or a list of blocks"));
    }
    let mut blocks = Vec::new();
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        blocks.push(read_block(cursor)?);
        Ok(())
    })?;
    Ok(blocks)
}

fn read_block(cursor: &mut Cursor<'_>) -> Result<Block, BodyError> {
    cursor.keep()?;
    if cursor.peek()? != Kind::Object {
        return Err(BodyError::field(FIELD, "a block must be an object"));
    }
    let mut fields = DictBuilder::default();
    let mut image = None;
    let mut content = Vec::new();
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "source" => image = read_source(cursor)?,
            "content" if cursor.peek()? == Kind::Array => content = read_blocks(cursor)?,
            _ => fields.insert(Value::from(key), cursor.value()?),
        }
        Ok(())
    })?;
    Ok(Block { fields: fields.build(), image, content })
}

/// Names an image by its URL or data.
fn read_source(cursor: &mut Cursor<'_>) -> Result<Option<MediaId>, JsonError> {
    if cursor.peek()? != Kind::Object {
        cursor.skip()?;
        return Ok(None);
    }
    let mut id = None;
    cursor.object(&mut |cursor, key| -> Result<(), JsonError> {
        if matches!(&*key, "url" | "data") && cursor.peek()? == Kind::String {
            id = Some(MediaId::of(&cursor.string()?));
            return Ok(());
        }
        cursor.skip()
    })?;
    Ok(id)
}
