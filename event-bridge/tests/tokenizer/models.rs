//! The tokenizers that `make setup` fetches.

use std::path::PathBuf;

use event_bridge::tokenizer::{CompiledTokenizer, ModelFiles, Reference, RenderOptions, compile_files};
use kv_routing::tokens::{CacheLimits, Prompter};

/// All of them.
pub(crate) const ALL: &[&str] = &["qwen2_5", "qwen3", "llama3_1", "deepseek_v3", "gptoss", "gpt4o", "gemma3", "llama2"];

pub(crate) fn files(name: &str) -> ModelFiles {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers").join(name);
    ModelFiles::read(&directory)
        .unwrap_or_else(|error| panic!("{error}\nrun `make setup`, it fetches the tokenizers tests need"))
}

pub(crate) fn compiled(files: &ModelFiles) -> CompiledTokenizer {
    compile_files(files, &RenderOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", files.directory.display()))
}

pub(crate) fn load(name: &str) -> (Prompter, Reference) {
    let files = files(name);
    let core = Prompter::load(compiled(&files).bytes, CacheLimits { bytes: 4 << 20 }).unwrap();
    (core, Reference::load(&files).unwrap())
}
