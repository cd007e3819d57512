//! A model directory as commands use it.

use std::path::Path;

use kv_routing::tokens::{CacheLimits, Prompter};

use super::CliError;
use crate::tokenizer::{CompiledTokenizer, ModelFiles, Reference, RenderOptions, compile_files};

const CACHE_BYTES: u32 = 16 << 20;

/// A compiled model, and the files it came from.
pub(super) struct Model {
    pub(super) files: ModelFiles,
    pub(super) compiled: CompiledTokenizer,
    pub(super) prompter: Prompter,
}

impl Model {
    /// Compiles the model in `dir`, chats rendered as vLLM does without options.
    pub(super) fn load(dir: &Path) -> Result<Self, CliError> {
        let files = ModelFiles::read(dir)?;
        let compiled = compile_files(&files, &RenderOptions::default())?;
        let prompter = Prompter::load(compiled.bytes.clone(), CacheLimits { bytes: CACHE_BYTES })?;
        Ok(Self { files, compiled, prompter })
    }

    /// The reference library on the same files.
    pub(super) fn reference(&self) -> Result<Reference, CliError> {
        Ok(Reference::load(&self.files)?)
    }
}
