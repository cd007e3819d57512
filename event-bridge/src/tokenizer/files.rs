//! The files of a model directory that decide how it tokenizes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kv_routing::block::TokenId;
use kv_routing::tokens::template::{self, RequestedFormat, TemplateConfig, TemplateError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use xxhash_rust::xxh3::Xxh3;

use super::json::ConfigJson;
use super::{CompileError, Unsupported, classes, ranks};

/// Largest `tokenizer.json` seen is 33 MB.
const FILE_BOUND: u64 = 256 << 20;

/// Which file the tokenizer is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// `tokenizer.json`
    #[default]
    Json,
    /// `tiktoken.model`
    Tiktoken,
    /// `tekken.json`
    Tekken,
}

/// Contents of the files; absent ones are `None`.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// The directory, for messages.
    pub directory: PathBuf,
    /// `tokenizer.json`, or what the rank file amounts to.
    pub tokenizer: Vec<u8>,
    /// Which file that is from.
    pub origin: Origin,
    /// `tokenizer_config.json`
    pub config: Option<Vec<u8>>,
    /// `chat_template.jinja`
    pub template: Option<Vec<u8>>,
    /// `config.json`
    pub model_config: Option<Vec<u8>>,
    /// The class that builds parts of its own in place of those of `tokenizer.json`; they are in `tokenizer`.
    pub rebuilt_as: Option<String>,
    /// `chat_template.json`
    pub template_json: Option<Vec<u8>>,
    /// `additional_chat_templates/tool_use.jinja`
    pub tool_template: Option<Vec<u8>>,
}

impl ModelFiles {
    /// Reads a model directory. A rank file counts where there is no `tokenizer.json`.
    ///
    /// # Errors
    /// [`CompileError::Read`] when there is no tokenizer or a file cannot be read, [`CompileError::TooLarge`],
    /// [`CompileError::Unsupported`] for a rank file that is damaged or of a class that is not known.
    pub fn read(directory: &Path) -> Result<Self, CompileError> {
        let optional = |name: &str| match read_bounded(&directory.join(name)) {
            Err(CompileError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        let config = optional("tokenizer_config.json")?;
        let model_config = optional("config.json")?;
        let mut rebuilt_as = None;
        let (tokenizer, origin) = match (optional("tiktoken.model")?, optional("tekken.json")?) {
            (_, Some(file)) if is_mistral(directory) => (ranks::tekken(&file)?, Origin::Tekken),
            _ if is_mistral(directory) => {
                return Err(Unsupported::new("tokenizer.model.v*", "read by the engine with mistral-common").into());
            }
            _ if directory.join("tokenizer.json").exists() => {
                let file = read_bounded(&directory.join("tokenizer.json"))?;
                let wrong = |source| CompileError::Json { path: directory.to_owned(), source };
                let (file, class) = classes::rebuild(file, config.as_deref(), model_config.as_deref(), wrong)?;
                rebuilt_as = class;
                (file, Origin::Json)
            }
            (Some(file), _) => (ranks::tiktoken(&file, config.as_deref())?, Origin::Tiktoken),
            (None, Some(file)) => (ranks::tekken(&file)?, Origin::Tekken),
            (None, None) => (read_bounded(&directory.join("tokenizer.json"))?, Origin::Json),
        };
        Ok(Self {
            directory: directory.to_owned(),
            tokenizer,
            origin,
            config,
            template: optional("chat_template.jinja")?,
            model_config,
            rebuilt_as,
            template_json: optional("chat_template.json")?,
            tool_template: optional("additional_chat_templates/tool_use.jinja")?,
        })
    }

    /// XXH3-128 of all files with their names and sizes.
    pub fn hash(&self) -> u128 {
        let mut hasher = Xxh3::new();
        let named = [
            ("tokenizer.json", Some(&self.tokenizer)),
            ("tokenizer_config.json", self.config.as_ref()),
            ("chat_template.jinja", self.template.as_ref()),
            ("config.json", self.model_config.as_ref()),
            ("chat_template.json", self.template_json.as_ref()),
            ("tool_use.jinja", self.tool_template.as_ref()),
        ];
        for (name, content) in named {
            let Some(content) = content else { continue };
            hasher.update(name.as_bytes());
            hasher.update(&(content.len() as u64).to_le_bytes());
            hasher.update(content);
        }
        hasher.digest128()
    }

    /// The chat templates, checked to render as in Python.
    ///
    /// # Errors
    /// [`TemplateError`] when there is none, or it is not supported.
    pub fn templates(&self, format: RequestedFormat) -> Result<TemplateConfig, TemplateError> {
        if self.origin == Origin::Tekken {
            return Err(TemplateError::OtherRenderer { model: "tekken.json".to_owned(), by: "mistral-common" });
        }
        let files = template::ModelFiles {
            config: self.model_config.as_deref(),
            tokenizer_config: self.config.as_deref(),
            chat_template: self.template.as_deref(),
            chat_template_json: self.template_json.as_deref(),
            tool_template: self.tool_template.as_deref(),
        };
        files.load(format)
    }

    /// `tokenizer_config.json`, read. Classes of rank files give its added tokens no flags: they are in what the file amounts to.
    pub(super) fn config_json(&self) -> Result<ConfigJson, CompileError> {
        let Some(config) = &self.config else { return Ok(ConfigJson::default()) };
        let mut config: ConfigJson = serde_json::from_slice(config)
            .map_err(|source| CompileError::Json { path: self.path("tokenizer_config.json"), source })?;
        if self.origin != Origin::Json {
            config.added_tokens_decoder.clear();
        }
        Ok(config)
    }

    /// Ids of added tokens, by the files' own word; empty for files that do not say.
    pub fn added_ids(&self) -> BTreeSet<TokenId> {
        let file: Added = serde_json::from_slice(&self.tokenizer).unwrap_or_default();
        let config: Decoder =
            self.config.as_deref().and_then(|config| serde_json::from_slice(config).ok()).unwrap_or_default();
        let by_config = config.added_tokens_decoder.into_keys().filter_map(|id| id.parse().ok());
        file.added_tokens.into_iter().map(|token| token.id).chain(by_config).map(TokenId).collect()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// What `tokenizer.json` says of added tokens.
#[derive(Debug, Default, Deserialize)]
struct Added {
    #[serde(default)]
    added_tokens: Vec<AddedId>,
}

#[derive(Debug, Deserialize)]
struct AddedId {
    id: u32,
}

/// What `tokenizer_config.json` says of them.
#[derive(Debug, Default, Deserialize)]
struct Decoder {
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, IgnoredAny>,
}

/// Whether engines load the model the way Mistral publishes it, whatever other files there are: vLLM's rule for its tokenizer mode `auto`.
fn is_mistral(directory: &Path) -> bool {
    let names = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let (mut weights, mut tokenizer) = (false, false);
    for name in names {
        weights |= name.starts_with("consolidated") && name.ends_with(".safetensors");
        tokenizer |= name == "tekken.json" || name.starts_with("tokenizer.model.v");
    }
    weights && tokenizer
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, CompileError> {
    let read = |source| CompileError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(read)?.len();
    if bytes > FILE_BOUND {
        return Err(CompileError::TooLarge { path: path.to_owned(), bytes, bound: FILE_BOUND });
    }
    std::fs::read(path).map_err(read)
}
