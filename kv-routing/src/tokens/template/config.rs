//! What is stored of a model's template files, inside the compiled tokenizer.

use bincode::{Decode, Encode};

/// Shape in which a template expects the content of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ContentFormat {
    /// A string: parts are joined by newlines before rendering.
    #[default]
    String,
    /// A list of parts with `type` and `text`: strings are wrapped.
    Parts,
}

/// The format an operator asks for; vLLM's `--chat-template-content-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestedFormat {
    /// Detected from the template.
    #[default]
    Auto,
    /// As given.
    Fixed(ContentFormat),
}

/// Everything a [`super::Renderer`] is compiled from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct TemplateConfig {
    /// The template.
    pub template: String,
    /// Another one for requests with tools, where a model has that (`tool_use`).
    pub tool_template: Option<String>,
    /// Shape of message contents, detected or given.
    pub content_format: ContentFormat,
    /// The same for `tool_template`.
    pub tool_content_format: ContentFormat,
    /// Special tokens by name (`bos_token`, ...), as templates see them.
    pub special_tokens: Vec<(String, String)>,
    /// vLLM's `--default-chat-template-kwargs`: a JSON object as text, or empty.
    pub default_kwargs: String,
    /// vLLM's `--exclude-tools-when-tool-choice-none`.
    pub exclude_tools_when_none: bool,
    /// vLLM's `--trust-request-chat-template`: requests may bring their own template.
    pub allow_request_template: bool,
    /// Minutes that the engine hosts' local time is ahead of UTC, for templates that print the date.
    pub utc_offset_minutes: i32,
    /// Whether the engine's `transformers` drops message fields that are null and gives reasoning under all its names
    /// (`reasoning_content`, `thinking`), as 5.24 does and 5.19 did not.
    pub normalize_messages: bool,
}
