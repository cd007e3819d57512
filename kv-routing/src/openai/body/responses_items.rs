//! Items of a Responses input to messages. One assistant message may be spread over several items: its reasoning, its
//! text and its tool calls.

use minijinja::Value;

use crate::openai::chat::{Content, Message};
use crate::openai::json::{Cursor, Kind};
use crate::openai::request::BodyError;
use crate::openai::value::{Dict, DictBuilder, List};

use super::content;
use super::responses::{flat_name, message};

const FIELD: &str = "input";

/// The messages so far.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    messages: Vec<Message>,
    /// The assistant message that following items may still add to.
    draft: Option<Draft>,
    end: End,
}

/// How a conversation ends, and what is in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// The last message is unfinished: the model continues it.
    pub(super) open: bool,
    /// There are images or the like.
    pub(super) media: bool,
    /// There is an item that has no message.
    pub(super) untranslated: bool,
}

#[derive(Debug, Default)]
struct Draft {
    content: Option<Value>,
    reasoning: Option<Value>,
    calls: Vec<Value>,
}

/// One item, read.
struct Item {
    fields: Dict,
    content: Content,
}

impl Item {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|value| value.as_str())
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_none())
    }
}

impl Conversation {
    /// Reads a list of items.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
        cursor.array(&mut |cursor| {
            let item = self.item(cursor)?;
            let status = item.text("status").unwrap_or_default();
            let continued = matches!(item.text("type").unwrap_or("message"), "message" | "reasoning");
            self.end.open = continued && matches!(status, "in_progress" | "incomplete");
            self.add(item)
        })
    }

    fn item(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, BodyError> {
        cursor.keep()?;
        if cursor.peek()? != Kind::Object {
            return Err(BodyError::field(FIELD, "an item must be an object"));
        }
        let mut fields = DictBuilder::default();
        let mut parts = Content::Absent;
        let mut media = false;
        cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
            match &*key {
                "content" | "output" if cursor.peek()? != Kind::Object => parts = content::read(cursor, &mut media)?,
                _ => fields.insert(Value::from(key), cursor.value()?),
            }
            Ok(())
        })?;
        self.end.media |= media;
        Ok(Item { fields: fields.build(), content: parts })
    }

    fn add(&mut self, item: Item) -> Result<(), BodyError> {
        match item.text("type") {
            Some("function_call") => {
                let name = item.text("name").unwrap_or_default();
                let name = item.text("namespace").map_or_else(|| name.to_owned(), |space| flat_name(space, name));
                let arguments = item.value("arguments").cloned().unwrap_or_else(|| Value::from(""));
                self.call(&item, &name, arguments);
            }
            Some("custom_tool_call") => {
                let mut arguments = DictBuilder::default();
                arguments.set("input", item.text("input").unwrap_or_default());
                self.call(&item, item.text("name").unwrap_or_default(), arguments.finish());
            }
            Some("reasoning") => self.reasoning(&item)?,
            Some("function_call_output" | "custom_tool_call_output") => {
                let mut fields = DictBuilder::default();
                fields.set("tool_call_id", item.value("call_id").cloned().unwrap_or_else(|| Value::from(())));
                self.push(message(Value::from("tool"), item.content, fields));
            }
            _ if item.text("role") == Some("assistant") => self.answer(item),
            _ => match item.value("role") {
                Some(role) => {
                    let role = role.clone();
                    let fields = DictBuilder::from(&item.fields);
                    self.push(message(role, item.content, fields));
                }
                None => self.end.untranslated = true,
            },
        }
        Ok(())
    }

    fn call(&mut self, item: &Item, name: &str, arguments: Value) {
        let mut function = DictBuilder::default();
        function.set("name", name);
        function.set("arguments", arguments);
        let mut call = DictBuilder::default();
        call.set("id", item.value("call_id").cloned().unwrap_or_else(|| Value::from(())));
        call.set("function", function.finish());
        call.set("type", "function");
        self.draft.get_or_insert_default().calls.push(call.finish());
    }

    /// The first text of its content, else of its summary.
    fn reasoning(&mut self, item: &Item) -> Result<(), BodyError> {
        if item.text("encrypted_content").is_some_and(|text| !text.is_empty()) {
            return Err(BodyError::field(FIELD, "engines refuse encrypted reasoning"));
        }
        let summary = || item.value("summary")?.get_item_by_index(0).ok()?.get_attr("text").ok();
        let text = first_text(&item.content).or_else(summary).filter(|text| !text.is_undefined());
        let text = text.unwrap_or_else(|| Value::from(""));
        if self.draft.as_ref().is_some_and(|draft| draft.reasoning.is_some()) {
            self.close();
        }
        self.draft.get_or_insert_default().reasoning = Some(text);
        Ok(())
    }

    fn answer(&mut self, item: Item) {
        let Some(text) = first_text(&item.content) else {
            let fields = DictBuilder::from(&item.fields);
            return self.push(message(Value::from("assistant"), item.content, fields));
        };
        if self.draft.as_ref().is_some_and(|draft| draft.content.is_some()) {
            self.close();
        }
        self.draft.get_or_insert_default().content = Some(text);
    }

    /// Adds a finished message.
    pub(super) fn push(&mut self, message: Message) {
        self.close();
        self.messages.push(message);
    }

    /// Nothing more is added to the assistant message.
    fn close(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let mut fields = DictBuilder::default();
        if let Some(reasoning) = draft.reasoning {
            fields.set("reasoning", reasoning);
        }
        if !draft.calls.is_empty() {
            fields.set("tool_calls", List::value(draft.calls));
        }
        let content = draft.content.map_or(Content::Absent, Content::Text);
        self.messages.push(message(Value::from("assistant"), content, fields));
    }

    /// The messages.
    pub(super) fn finish(mut self) -> (Vec<Message>, End) {
        self.close();
        (self.messages, self.end)
    }
}

fn first_text(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) => Some(text.clone()),
        Content::Parts(parts) => parts.first()?.fields.get("text").cloned().filter(|text| text.as_str().is_some()),
        Content::Absent => None,
    }
}
