//! Names the code that proves tokenizers, so that proofs kept on disk count only for the program that made them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Everything a proof depends on besides the model: core, compiler, corpus, and the versions of all libraries.
const SOURCES: [&str; 3] = ["../kv-routing/src", "src/tokenizer", "../Cargo.lock"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = BTreeSet::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(&root.join(source), &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        let content = fs::read(&file)?;
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        hasher.write(name.as_bytes());
        hasher.write_usize(content.len());
        hasher.write(&content);
    }
    println!("cargo::rustc-env=PROVER={:016x}", hasher.finish());
    Ok(())
}

/// A file, or all files of a folder.
fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
