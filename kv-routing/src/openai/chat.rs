//! Messages and everything else a chat template sees, before any engine's own rewriting.

use std::borrow::Cow;

use minijinja::Value;

use super::value::Dict;

/// Messages and everything else a chat template sees.
#[derive(Clone, Debug)]
pub struct ChatInput<'a> {
    /// `messages`, or what other endpoints are mapped to.
    pub messages: Vec<Message>,
    /// `tools` as given; none when absent or null.
    pub tools: Option<Value>,
    /// `tool_choice`.
    pub tool_choice: ToolChoice,
    /// `documents` as given; none when absent or null.
    pub documents: Option<Value>,
    /// `chat_template_kwargs`; a dict.
    pub template_kwargs: Option<Value>,
    /// `chat_template`: a template of the client's own, refused unless the renderer allows it.
    pub chat_template: Option<Cow<'a, str>>,
    /// `add_generation_prompt`; true when absent.
    pub add_generation_prompt: bool,
    /// `continue_final_message`; false when absent.
    pub continue_final_message: bool,
    /// `reasoning_effort`.
    pub reasoning_effort: Option<Cow<'a, str>>,
    /// Set for `/v1/messages`.
    pub anthropic: Option<Anthropic>,
}

/// What vLLM decides for `/v1/messages` by asking the template: a system message that the template accepts only in
/// front is moved there, and disabled thinking is said in the way that makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anthropic {
    /// `thinking` is `{"type": "disabled"}`.
    pub thinking_disabled: bool,
}

impl Default for ChatInput<'_> {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            tools: None,
            tool_choice: ToolChoice::Absent,
            documents: None,
            template_kwargs: None,
            chat_template: None,
            add_generation_prompt: true,
            continue_final_message: false,
            reasoning_effort: None,
            anthropic: None,
        }
    }
}

/// `tool_choice`, as far as it can change a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Not given or null.
    #[default]
    Absent,
    /// `"none"`: some engines leave the tools out then.
    None,
    /// `"auto"`, `"required"` or a named function.
    Some,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Message {
    /// `role`; a string.
    pub role: Value,
    /// `content`.
    pub content: Content,
    /// All other fields: `tool_calls`, `name`, `reasoning`, ...
    pub fields: std::sync::Arc<Dict>,
}

/// Content of a message.
#[derive(Clone, Debug)]
pub enum Content {
    /// Not given or null.
    Absent,
    /// A string.
    Text(Value),
    /// A list.
    Parts(Vec<Part>),
}

/// One item of a content list.
#[derive(Clone, Debug)]
pub struct Part {
    /// The fields as given, the payload of an image, audio or video replaced by null.
    pub fields: Dict,
    /// Present when it is an image, audio or video.
    pub media: Option<MediaId>,
}

/// Stable name of one image, audio or video: XXH3-64 of its URL, data or uuid; of 64 hexadecimal digits (a content
/// hash) the first 16 as a number, as Dynamo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MediaId(pub u64);

impl MediaId {
    /// The name of an item known by `text`.
    pub fn of(text: &str) -> Self {
        let hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let leading = text.get(..16).filter(|_| hex).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Self(leading.unwrap_or_else(|| xxhash_rust::xxh3::xxh3_64(text.as_bytes())))
    }
}
