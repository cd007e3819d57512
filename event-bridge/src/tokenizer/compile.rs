//! Model files to compiled tokenizer.

use std::path::Path;

use kv_routing::tokens::image::{Family, Meta, ModelFlags, Normalizer};
use kv_routing::tokens::template::{RequestedFormat, TemplateConfig, TemplateError};
use kv_routing::tokens::{Parts, Tokenizer, assemble};

use super::json::{ConfigJson, TokenizerJson, VocabJson};
use super::{CompileError, ModelFiles, Origin, Unsupported, added, model, pipeline, unicode};

/// A compiled tokenizer and what it was compiled from.
#[derive(Clone, Debug)]
pub struct CompiledTokenizer {
    /// Low half of the image's content hash: the same files and the same compiler give the same id.
    pub id: u64,
    /// The binary form.
    pub bytes: Vec<u8>,
    /// What was recognised.
    pub report: Report,
}

/// What the compiler recognised, for people.
#[derive(Clone, Debug)]
pub struct Report {
    /// Hash of the source files.
    pub source: u128,
    /// How it tokenizes.
    pub meta: Meta,
    /// Tokens of the model's vocabulary.
    pub vocabulary: usize,
    /// Merges.
    pub merges: usize,
    /// Added tokens found in the raw text, and in the normalized text.
    pub added: (usize, usize),
    /// Why chats cannot be rendered, when they cannot. Text completions work all the same.
    pub template_problem: Option<TemplateError>,
    /// Things worth knowing that do not stand in the way.
    pub notes: Vec<String>,
}

/// How the engine renders chat templates, where that is not in the model's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// vLLM's `--chat-template-content-format`.
    pub content_format: RequestedFormat,
    /// vLLM's `--default-chat-template-kwargs`: a JSON object as text, or empty.
    pub default_kwargs: String,
    /// vLLM's `--exclude-tools-when-tool-choice-none`.
    pub exclude_tools_when_none: bool,
    /// vLLM's `--trust-request-chat-template`.
    pub allow_request_template: bool,
    /// Minutes that the engine hosts' local time is ahead of UTC.
    pub utc_offset_minutes: i32,
    /// See [`TemplateConfig::normalize_messages`].
    pub normalize_messages: bool,
}

impl RenderOptions {
    pub(super) fn apply(&self, mut template: TemplateConfig) -> TemplateConfig {
        template.default_kwargs.clone_from(&self.default_kwargs);
        template.exclude_tools_when_none = self.exclude_tools_when_none;
        template.allow_request_template = self.allow_request_template;
        template.utc_offset_minutes = self.utc_offset_minutes;
        template.normalize_messages = self.normalize_messages;
        template
    }
}

/// Compiles the tokenizer of a model directory, chats rendered as vLLM does without options.
///
/// # Errors
/// [`CompileError::Unsupported`] names what the core does not know; the others say which file is wrong.
pub fn compile(directory: &Path) -> Result<CompiledTokenizer, CompileError> {
    compile_files(&ModelFiles::read(directory)?, &RenderOptions::default())
}

/// Compiles files that are read already.
///
/// # Errors
/// As [`compile`].
pub fn compile_files(files: &ModelFiles, options: &RenderOptions) -> Result<CompiledTokenizer, CompileError> {
    let json: TokenizerJson = serde_json::from_slice(&files.tokenizer)
        .map_err(|source| CompileError::Json { path: files.path("tokenizer.json"), source })?;
    let config = files.config_json()?;
    let (mut parts, mut notes) = build_parts(&json, &config, files.origin)?;
    notes.extend(files.rebuilt_as.as_ref().map(|class| {
        format!(
            "{class} of transformers 5 builds normalizer and pre-tokenizer itself, and so it is done here; for engines with transformers 4, which \
             follow tokenizer.json, put PreTrainedTokenizerFast as tokenizer_class into the pool's tokenizer_config.json"
        )
    }));
    let template = files.templates(options.content_format).map(|template| options.apply(template));
    let template_problem = template.as_ref().err().cloned();
    parts.template = template.ok();
    let source = files.hash();
    let bytes = assemble(&parts, source)?;
    let tokenizer = Tokenizer::load(bytes.clone()).map_err(kv_routing::tokens::AssembleError::from)?;
    let report = Report {
        source,
        vocabulary: parts.vocabulary.len(),
        merges: parts.merges.len(),
        added: (parts.added_raw.len(), parts.added_normalized.len()),
        meta: parts.meta,
        template_problem,
        notes,
    };
    Ok(CompiledTokenizer { id: tokenizer.image().id() as u64, bytes, report })
}

fn build_parts(
    json: &TokenizerJson,
    config: &ConfigJson,
    origin: Origin,
) -> Result<(Parts, Vec<String>), CompileError> {
    if !json.truncation.is_null() {
        return Err(Unsupported::new("truncation", json.truncation.to_string()).into());
    }
    let pipeline = pipeline::recognise(&json.normalizer, &json.pre_tokenizer, &json.post_processor)?;
    let model = model::read(&json.model, pipeline.family, origin != Origin::Json)?;
    let VocabJson::Map(ids) = &json.model.vocab else {
        return Err(Unsupported::new("model.vocab", "a list").into());
    };
    let size = u32::try_from(ids.len()).map_err(|_| Unsupported::new("model.vocab", "too large"))?;
    let lookup = |text: &str| ids.get(text).copied();
    let tokens = added::resolve(&json.added_tokens, &config.added_tokens_decoder, &lookup, size)?;
    if origin == Origin::Json {
        added::refuse_unlisted(config.special_tokens(), |text| {
            ids.contains_key(text) || tokens.values().any(|token| token.content == text)
        })?;
    }
    let added = added::sort(&tokens, pipeline.normalizer)?;
    let normalization = (pipeline.normalizer == Normalizer::Nfc).then(unicode::normalization);
    let highest = ids.values().max().map_or(0, |id| id.saturating_add(1));
    let meta = Meta {
        family: pipeline.family,
        pattern: pipeline.pattern,
        normalizer: pipeline.normalizer,
        flags: ModelFlags { cuts_long_texts: origin == Origin::Tiktoken, ..model.flags },
        unknown: model.unknown,
        vocabulary: highest.max(added.end),
        classes: unicode::CLASSES,
        normalization: normalization.as_ref().map(|_| unicode::NORMALIZATION).unwrap_or_default(),
        prefix: pipeline.prefix,
        suffix: pipeline.suffix,
    };
    let notes = notes(config, &meta, origin);
    let parts = Parts {
        classes: unicode::classes(normalization.as_ref())?,
        meta,
        byte_tokens: model.byte_tokens,
        vocabulary: model.vocabulary,
        merges: model.merges,
        normalization,
        added_raw: added.raw,
        added_normalized: added.normalized,
        template: None,
    };
    Ok((parts, notes))
}

fn notes(config: &ConfigJson, meta: &Meta, origin: Origin) -> Vec<String> {
    let mut notes = Vec::new();
    if origin == Origin::Tiktoken {
        notes.push(
            "Kimi's tokenizer class cuts runs of more than 25,000 characters with or without white space; prompts are exact up to the first such cut"
                .to_owned(),
        );
    }
    if config.add_bos_token == Some(true) && meta.prefix.is_empty() {
        let class = config.tokenizer_class.as_deref().unwrap_or("unknown class");
        notes.push(format!(
            "tokenizer_config.json asks for a BOS token ({class}) that tokenizer.json does not add; text completions follow tokenizer.json"
        ));
    }
    if config.add_eos_token == Some(true) && meta.suffix.is_empty() {
        notes.push("tokenizer_config.json asks for an EOS token that tokenizer.json does not add".to_owned());
    }
    let class = config.tokenizer_class.as_deref().unwrap_or("");
    if meta.family == Family::ByteLevel && class.starts_with("LlamaTokenizer") {
        notes.push(format!(
            "tokenizer_config.json says {class} for a byte-level tokenizer: some releases of transformers 5 read it as SentencePiece and \
             compute other tokens than its tokenizer.json says; compare with the engine's /tokenize"
        ));
    }
    notes
}
