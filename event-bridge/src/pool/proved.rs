//! Compiled tokenizers that were proved equal to the reference library, kept on disk.
//!
//! A file is named by everything the proof depends on: model files, render options, and the code and corpus that prove (`build.rs`), so that
//! a program with another core or self-test proves anew. It holds the XXH3-128 of the rest, the tokenizer's id, and its bytes; one that does not match is as good as none. Whoever may write
//! there may change what prompts hash to, so the folder belongs to the bridge alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kv_routing::tokens::Tokenizer;
use xxhash_rust::xxh3::xxh3_128;

use crate::tokenizer::{ModelFiles, RenderOptions};

const DIGEST_BYTES: usize = 16;

/// Hash of the sources that compile and prove, and of the versions of all libraries.
const PROVER: &str = env!("PROVER");

/// Place of one tokenizer.
#[derive(Debug)]
pub(super) struct Proved {
    path: PathBuf,
}

impl Proved {
    pub(super) fn new(cache_dir: &Path, files: &ModelFiles, options: &RenderOptions) -> Self {
        Self::by(PROVER, cache_dir, files, options)
    }

    /// Of what another program, or this one, has proved.
    fn by(prover: &str, cache_dir: &Path, files: &ModelFiles, options: &RenderOptions) -> Self {
        let what = format!("{prover} {:032x} {options:?}", files.hash());
        Self { path: cache_dir.join(format!("{:032x}.tokenizer", xxh3_128(what.as_bytes()))) }
    }

    /// Its id and bytes, when they are there and whole.
    pub(super) fn find(&self) -> Option<(u64, Vec<u8>)> {
        let mut file = fs::read(&self.path).ok()?;
        let (digest, rest) = file.split_first_chunk::<DIGEST_BYTES>()?;
        if xxh3_128(rest).to_le_bytes() != *digest {
            return None;
        }
        let id = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let bytes = file.split_off(DIGEST_BYTES + 8);
        // Somebody else may have put there what filters do not read.
        Tokenizer::load(bytes.clone()).ok()?;
        Some((id, bytes))
    }

    /// Keeps a tokenizer, by rename, so that no half of it is ever found.
    pub(super) fn keep(&self, id: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = id.to_le_bytes().to_vec();
        rest.extend_from_slice(bytes);
        let mut file = xxh3_128(&rest).to_le_bytes().to_vec();
        file.append(&mut rest);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = self.path.with_extension(format!("new-{}", std::process::id()));
        fs::write(&beside, file)?;
        fs::rename(beside, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn damaged_and_foreign_files_are_none() {
        let scratch = Scratch::new();
        let files = ModelFiles { tokenizer: b"{}".to_vec(), ..ModelFiles::default() };
        let place = |files: &ModelFiles| Proved::new(&scratch.path("cache"), files, &RenderOptions::default());
        let here = place(&files);
        assert_eq!(here.find(), None);
        here.keep(7, b"no tokenizer").unwrap();
        assert_eq!(here.find(), None, "whole, but not a tokenizer of this release");
        fs::write(&here.path, b"short").unwrap();
        assert_eq!(here.find(), None);
        let other = ModelFiles { tokenizer: b"{ }".to_vec(), ..ModelFiles::default() };
        assert_ne!(place(&other).path, here.path);
        let by_another = Proved::by("another program", &scratch.path("cache"), &files, &RenderOptions::default());
        assert_ne!(by_another.path, here.path);
    }

    /// Both change the prover's name whenever they change; this fails where they are somewhere else by now.
    #[test]
    fn core_and_corpus_are_part_of_the_provers_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for source in
            ["../kv-routing/src/tokens/image/meta.rs", "src/tokenizer/corpus/conversations.rs", "../Cargo.lock"]
        {
            assert!(root.join(source).is_file(), "{source}");
        }
        assert!(PROVER.len() == 16 && PROVER.bytes().all(|digit| digit.is_ascii_hexdigit()));
    }
}
