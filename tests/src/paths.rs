//! Where the things under test are. What is missing is named together with the make target that brings it.

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

/// A checked-in file of recorded facts.
pub fn data(name: &str) -> PathBuf {
    repository().join("tests/data").join(name)
}

/// Envoy itself.
pub fn envoy() -> PathBuf {
    existing(repository().join(".deps/envoy/envoy"), "make setup")
}

/// The filter as it ships.
pub fn filter_wasm() -> PathBuf {
    existing(target().join("filter.wasm"), "make wasm")
}

/// Folder with `tokenizer.json` and `tokenizer_config.json` of a model family, e.g. `qwen3`.
pub fn model_dir(family: &str) -> PathBuf {
    existing(repository().join(".deps/tokenizers").join(family), "make setup")
}

/// A native program of this workspace, built in the profile of the running one.
pub fn program(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a running program has a path");
    let mut folder = running.parent().expect("it lies in a folder");
    if folder.ends_with("deps") {
        // Tests lie one folder below programs.
        folder = folder.parent().expect("deps lies in a folder");
    }
    existing(folder.join(name), "make build")
}

/// Where logs of failed tests are kept.
pub fn failure_logs() -> PathBuf {
    target().join("e2e-logs")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

fn existing(path: PathBuf, target: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing: run `{target}`", path.display());
    path
}
