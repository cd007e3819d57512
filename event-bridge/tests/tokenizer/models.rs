//! The tokenizers that `make setup` fetches.

use std::path::PathBuf;

use event_bridge::tokenizer::{CompiledTokenizer, ModelFiles, Reference, RenderOptions, compile_files};
use kv_routing::tokens::{CacheLimits, Prompter};

pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers").join(name)
}

pub(crate) fn files(name: &str) -> ModelFiles {
    ModelFiles::read(&folder(name))
        .unwrap_or_else(|error| panic!("{error}\nrun `make setup`, it fetches the tokenizers tests need"))
}

pub(crate) fn compiled(files: &ModelFiles) -> CompiledTokenizer {
    compile_files(files, &RenderOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", files.directory.display()))
}

pub(crate) fn prompter(bytes: Vec<u8>, cache: u32) -> Prompter {
    Prompter::load(bytes, CacheLimits { bytes: cache }).unwrap()
}

pub(crate) fn load(name: &str) -> (Prompter, Reference) {
    let files = files(name);
    (prompter(compiled(&files).bytes, 4 << 20), Reference::load(&files).unwrap())
}
