//! A model directory as commands use it.

use std::path::Path;

use kv_routing::tokens::{CacheLimits, Prompter};

use super::CliError;
use crate::tokenizer::{
    BridgeTokenizer, ChatTest, CompiledTokenizer, ModelFiles, Reference, RenderOptions, SelfTest, compile_files,
    self_test, self_test_chats,
};

const CACHE_BYTES: u32 = 16 << 20;

/// A compiled model, and the files it came from.
pub(super) struct Model {
    pub(super) files: ModelFiles,
    pub(super) options: RenderOptions,
    pub(super) compiled: CompiledTokenizer,
    pub(super) prompter: Prompter,
}

impl Model {
    /// Compiles the model in `dir`, chats rendered as vLLM does without options.
    pub(super) fn load(dir: &Path) -> Result<Self, CliError> {
        Self::load_with(dir, &RenderOptions::default())
    }

    /// Compiles the model in `dir`, chats rendered as `options` say.
    pub(super) fn load_with(dir: &Path, options: &RenderOptions) -> Result<Self, CliError> {
        let files = ModelFiles::read(dir)?;
        let compiled = compile_files(&files, options)?;
        let prompter = Prompter::load(compiled.bytes.clone(), CacheLimits { bytes: CACHE_BYTES })?;
        Ok(Self { files, options: options.clone(), compiled, prompter })
    }

    /// Compares with the reference library, and with the template as it is written, over the built-in corpus.
    pub(super) fn prove(&mut self) -> Result<(SelfTest, ChatTest), CliError> {
        let reference = self.reference()?;
        let texts = self_test(&mut self.prompter, &reference)?;
        let judge = BridgeTokenizer::as_written(reference, &self.files, &self.options);
        Ok((texts, self_test_chats(&mut self.prompter, &judge)?))
    }

    /// The reference library on the same files.
    pub(super) fn reference(&self) -> Result<Reference, CliError> {
        Ok(Reference::load(&self.files)?)
    }
}
