//! Content of a message in the template's format.

use minijinja::Value;

use crate::openai::value::{DictBuilder, List};
use crate::openai::{Content, Message, Part};
use crate::tokens::template::config::ContentFormat;
use crate::tokens::template::error::RenderError;

const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// Content in the template's format.
pub(super) fn content(
    message: &Message,
    format: ContentFormat,
    media: &mut usize,
    stand_in: &mut dyn FnMut(usize) -> Option<String>,
) -> Result<Value, RenderError> {
    let system = message.role.as_str() == Some("system");
    let single;
    let parts: &[Part] = match &message.content {
        Content::Absent => &[],
        Content::Text(text) if format == ContentFormat::String && !system => return Ok(text.clone()),
        Content::Text(text) => {
            let mut part = DictBuilder::default();
            part.set("type", "text");
            part.set("text", text.clone());
            single = [Part { fields: part.build(), media: None }];
            &single
        }
        Content::Parts(parts) => parts,
    };
    let mut items = Items {
        format,
        tool: message.role.as_str() == Some("tool"),
        texts: Vec::new(),
        wrapped: Vec::new(),
        stand_ins: Vec::new(),
    };
    for part in parts {
        if part.media.is_some() {
            items.media(part, stand_in(*media));
            *media += 1;
        } else {
            items.text(part, system)?;
        }
    }
    Ok(items.finish())
}

/// The parts of one message being put together.
struct Items {
    format: ContentFormat,
    tool: bool,
    texts: Vec<Value>,
    wrapped: Vec<Value>,
    /// Stand-ins of media, which string templates have in front of the text.
    stand_ins: Vec<String>,
}

impl Items {
    fn media(&mut self, part: &Part, stand_in: Option<String>) {
        match (self.format, stand_in) {
            (ContentFormat::String, stand_in) => self.stand_ins.extend(stand_in),
            (ContentFormat::Parts, Some(stand_in)) => {
                let mut dict = DictBuilder::default();
                dict.set("type", "text");
                dict.set("text", stand_in);
                self.wrapped.push(dict.finish());
            }
            (ContentFormat::Parts, None) => {
                let mut dict = DictBuilder::default();
                dict.set("type", modality(part));
                add_extra_fields(&mut dict, part);
                self.wrapped.push(dict.finish());
            }
        }
    }

    fn text(&mut self, part: &Part, system: bool) -> Result<(), RenderError> {
        let kind = part.fields.get("type").and_then(|kind| kind.as_str());
        let text = match kind {
            Some("text" | "input_text" | "output_text") => part.fields.get("text"),
            Some("thinking") => part.fields.get("thinking"),
            Some("refusal") => part.fields.get("refusal"),
            Some("tool_reference") => {
                self.tool_reference(part);
                return Ok(());
            }
            _ => return Err(RenderError::Refused("a content part of unknown type")),
        };
        let Some(text) = text.filter(|text| !text.is_none()) else { return Ok(()) };
        if text.as_str().is_none() {
            return Err(RenderError::Refused("a text part whose text is not a string"));
        }
        let Some(text) = without_billing_header(text, system) else { return Ok(()) };
        let joined = match self.format {
            // Empty texts are passed over, so they leave no empty line.
            ContentFormat::String => text.as_str() != Some(""),
            ContentFormat::Parts => self.tool,
        };
        if joined {
            self.texts.push(text.clone());
        }
        if self.format == ContentFormat::Parts {
            let mut dict = DictBuilder::default();
            dict.set("type", "text");
            dict.set("text", text);
            add_extra_fields(&mut dict, part);
            self.wrapped.push(dict.finish());
        }
        Ok(())
    }

    fn tool_reference(&mut self, part: &Part) {
        let name = part.fields.get("name").cloned().unwrap_or_else(|| Value::from(()));
        if self.format == ContentFormat::String {
            self.texts.push(name);
            return;
        }
        let mut dict = DictBuilder::default();
        dict.set("type", "tool_reference");
        dict.set("name", name);
        self.wrapped.push(dict.finish());
    }

    fn finish(self) -> Value {
        let only_text = self.wrapped.len() == self.texts.len();
        if self.format == ContentFormat::Parts && !(self.tool && only_text) {
            return List::value(self.wrapped);
        }
        if self.stand_ins.is_empty() && self.texts.len() == 1 {
            return self.texts.into_iter().next().unwrap_or_default();
        }
        let mut pieces: Vec<&str> = self.stand_ins.iter().map(String::as_str).collect();
        pieces.extend(self.texts.iter().map(|text| text.as_str().unwrap_or_default()));
        Value::from(pieces.join("\n"))
    }
}

/// Fields of content parts that the API knows; all others reach the template as they are.
const KNOWN_FIELDS: &[&str] = &[
    "audio_embeds",
    "audio_url",
    "closed",
    "data",
    "file",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "name",
    "prompt_cache_breakpoint",
    "refusal",
    "text",
    "thinking",
    "type",
    "uuid",
    "video_embeds",
    "video_url",
];

fn add_extra_fields(dict: &mut DictBuilder, part: &Part) {
    for (name, value) in part.fields.iter().filter(|(name, _)| !KNOWN_FIELDS.contains(name)) {
        dict.set(name, value.clone());
    }
}

/// Name that templates know a medium by.
fn modality(part: &Part) -> &'static str {
    let has = |names: &[&str]| part.fields.iter().any(|(name, value)| names.contains(&name) && value.is_none());
    if has(&["video_url", "video", "video_embeds"]) {
        "video"
    } else if has(&["audio_url", "audio", "input_audio", "audio_embeds"]) {
        "audio"
    } else {
        "image"
    }
}

/// Claude Code's attribution line changes with every request; vLLM takes it off system messages.
fn without_billing_header(text: &Value, system: bool) -> Option<Value> {
    let Some(header) = text.as_str().filter(|text| system && text.starts_with(BILLING_HEADER)) else {
        return Some(text.clone());
    };
    let rest = header.split_once('\n').map_or("", |(_, rest)| rest);
    if rest.is_empty() { None } else { Some(Value::from(rest)) }
}
