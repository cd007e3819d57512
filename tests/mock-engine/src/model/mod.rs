//! Tokenizer, chat template and answer words of a model folder.
//!
//! Nothing here shares code with the router: tokens come from Hugging Face's own library, prompts from the template
//! engine's full feature set with vLLM's message preparation.

mod chat;
mod content_format;
mod messages;
mod python;
mod template;
#[cfg(test)]
mod tests;
mod tools;
mod words;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::Tokenizer;

pub use chat::{ChatError, ChatPrompt};
pub use content_format::ContentFormat;
pub use template::{ChatTemplate, TemplateError};
pub(crate) use words::mix;
pub use words::{AnswerPlan, Words};

/// A model folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file that is missing or unreadable.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{path} is not usable: {reason}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// No token decodes to a word that encodes back to it.
    #[error("the tokenizer in {0} has no plain words to answer with")]
    NoWords(PathBuf),
}

/// Text that could not be tokenized.
#[derive(Debug, thiserror::Error)]
#[error("cannot tokenize: {0}")]
pub struct EncodeError(String);

/// Tokenizer, chat template and answer words.
#[derive(Debug)]
pub struct Model {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    words: Words,
    eos: Option<u32>,
    vocab_size: u32,
}

impl Model {
    /// Loads `tokenizer.json` and `tokenizer_config.json` (and `chat_template.jinja`, when there is one) from `dir`.
    ///
    /// # Errors
    /// When a file is missing or not usable; the text names it.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let path = dir.join("tokenizer.json");
        let parse = |reason: String| ModelError::Parse { path: path.clone(), reason };
        let tokenizer = Tokenizer::from_bytes(read(&path)?).map_err(|error| parse(error.to_string()))?;
        let config = read_config(&dir.join("tokenizer_config.json"))?;
        let template = match read_template(dir, &config)? {
            Some((path, source)) => Some(
                ChatTemplate::compile(&source, special_tokens(&config))
                    .map_err(|error| ModelError::Parse { path, reason: error.to_string() })?,
            ),
            None => None,
        };
        let words = Words::choose(&tokenizer).ok_or_else(|| ModelError::NoWords(dir.to_owned()))?;
        let eos = special_tokens(&config)
            .get("eos_token")
            .and_then(Value::as_str)
            .and_then(|token| tokenizer.token_to_id(token));
        let vocab_size = tokenizer.get_vocab_size(true) as u32;
        Ok(Self { tokenizer, template, words, eos, vocab_size })
    }

    /// Token ids of `text`; `add_special_tokens` lets the tokenizer add what it always adds (BOS).
    ///
    /// # Errors
    /// When the tokenizer refuses the text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EncodeError> {
        let encoding =
            self.tokenizer.encode_fast(text, add_special_tokens).map_err(|error| EncodeError(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `ids`, special tokens left out.
    ///
    /// # Errors
    /// When the tokenizer cannot decode.
    pub fn decode(&self, ids: &[u32]) -> Result<String, EncodeError> {
        self.tokenizer.decode(ids, true).map_err(|error| EncodeError(error.to_string()))
    }

    /// The token strings of `ids`, as `/tokenize` shows them.
    pub fn token_strings(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|id| self.tokenizer.id_to_token(*id).unwrap_or_default()).collect()
    }

    /// The chat template, if the folder has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// The words answers are made of.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Ids are below this.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ModelError> {
    std::fs::read(path).map_err(|source| ModelError::Read { path: path.to_owned(), source })
}

fn read_config(path: &Path) -> Result<Map<String, Value>, ModelError> {
    serde_json::from_slice(&read(path)?)
        .map_err(|error| ModelError::Parse { path: path.to_owned(), reason: error.to_string() })
}

/// The template's source and the file it is in. A `chat_template.jinja` wins over the configuration, as in
/// transformers; of several named templates `default` is taken.
fn read_template(dir: &Path, config: &Map<String, Value>) -> Result<Option<(PathBuf, String)>, ModelError> {
    let file = dir.join("chat_template.jinja");
    if file.exists() {
        let source = String::from_utf8(read(&file)?)
            .map_err(|error| ModelError::Parse { path: file.clone(), reason: error.to_string() })?;
        return Ok(Some((file, source)));
    }
    let source = match config.get("chat_template") {
        Some(Value::String(source)) => Some(source.clone()),
        Some(Value::Array(named)) => named
            .iter()
            .find(|entry| entry["name"] == "default")
            .and_then(|entry| entry["template"].as_str())
            .map(str::to_owned),
        _ => None,
    };
    Ok(source.map(|source| (dir.join("tokenizer_config.json"), source)))
}

/// `bos_token` and its like, which templates see as variables.
fn special_tokens(config: &Map<String, Value>) -> Map<String, Value> {
    const NAMES: [&str; 7] =
        ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    let text = |value: &Value| match value {
        Value::String(token) => Some(token.clone()),
        Value::Object(token) => token.get("content").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    NAMES.iter().filter_map(|name| Some(((*name).to_owned(), Value::String(text(config.get(*name)?)?)))).collect()
}
