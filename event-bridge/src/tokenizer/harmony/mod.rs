//! Chats of gpt-oss: harmony, as vLLM 0.32 builds it with oss-harmony 0.0.11 for `/v1/chat/completions`.
//!
//! Not a text with markers in it: what clients write never becomes a marker, and every piece of text is tokenized by itself.

mod convert;
mod schema;

use kv_routing::openai::ChatInput;
use thiserror::Error;

/// What a harmony prompt is put together from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A special token.
    Special(&'static str),
    /// Text in which nothing is special.
    Text(String),
}

/// Why messages cannot be rendered; vLLM refuses most of these too.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HarmonyError {
    /// A field that harmony needs otherwise.
    #[error("harmony: {0}")]
    Field(String),
    /// The request brings a template, which harmony has no use for.
    #[error("harmony: the request brings its own chat template")]
    Template,
    /// Other endpoints, which vLLM maps to harmony in other ways.
    #[error("harmony: only /v1/chat/completions is rendered here")]
    Endpoint,
}

const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";

/// The prompt of a chat on `date` (`YYYY-MM-DD`), the engine's local one.
///
/// # Errors
/// [`HarmonyError`].
pub(super) fn render(chat: &ChatInput<'_>, with_tools: bool, date: &str) -> Result<Vec<Piece>, HarmonyError> {
    if chat.chat_template.is_some() {
        return Err(HarmonyError::Template);
    }
    let tools = match &chat.tools {
        Some(tools) if with_tools => convert::tools(tools)?,
        _ => convert::Tools::default(),
    };
    let (instructions, messages) = convert::split_instructions(&chat.messages)?;
    let mut all = vec![system(chat.reasoning_effort.as_deref(), !tools.functions.is_empty(), date)?];
    if instructions.as_deref().is_some_and(|text| !text.is_empty()) || tools.given {
        all.push(developer(instructions.as_deref(), &tools.functions));
    }
    all.extend(convert::messages(messages)?);
    let last_final = all.iter().rposition(|message| message.channel == Some("final")).unwrap_or(0);
    let mut pieces = Vec::new();
    for (at, message) in all.into_iter().enumerate() {
        // Thoughts behind an answer are gone once it is given.
        if at >= last_final || message.channel != Some("analysis") {
            message.into_pieces(&mut pieces);
        }
    }
    pieces.extend([Piece::Special(START), Piece::Text("assistant".to_owned())]);
    Ok(pieces)
}

/// One message.
#[derive(Debug)]
struct Message {
    /// Pieces between the start and the content.
    header: Vec<Piece>,
    channel: Option<&'static str>,
    contents: Vec<String>,
    end: &'static str,
}

impl Message {
    fn new(author: &str, contents: Vec<String>) -> Self {
        Self { header: vec![Piece::Text(author.to_owned())], channel: None, contents, end: END }
    }

    fn on(mut self, channel: &'static str) -> Self {
        self.header.extend([Piece::Special(CHANNEL), Piece::Text(channel.to_owned())]);
        Self { channel: Some(channel), ..self }
    }

    fn into_pieces(self, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Special(START));
        pieces.extend(self.header);
        pieces.push(Piece::Special(MESSAGE));
        pieces.extend(self.contents.into_iter().map(Piece::Text));
        pieces.push(Piece::Special(self.end));
    }
}

fn system(effort: Option<&str>, functions: bool, date: &str) -> Result<Message, HarmonyError> {
    let effort = match effort {
        None => "medium",
        Some(effort @ ("low" | "medium" | "high")) => effort,
        Some(other) => return Err(HarmonyError::Field(format!("reasoning_effort `{other}`"))),
    };
    let mut text = format!(
        "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: {date}\n\n\
         Reasoning: {effort}\n\n\
         # Valid channels: analysis, commentary, final. Channel must be included for every message."
    );
    if functions {
        text.push_str("\nCalls to these tools must go to the commentary channel: 'functions'.");
    }
    Ok(Message::new("system", vec![text]))
}

fn developer(instructions: Option<&str>, functions: &[schema::Function]) -> Message {
    let mut sections = Vec::new();
    if let Some(instructions) = instructions {
        sections.push(format!("# Instructions\n\n{instructions}"));
    }
    if !functions.is_empty() {
        sections.push(schema::section(functions));
    }
    Message::new("developer", vec![sections.join("\n\n")])
}
