//! Why a model's tokenizer cannot be compiled.

use std::path::PathBuf;

use kv_routing::tokens::AssembleError;
use thiserror::Error;

/// Why a model's tokenizer cannot be compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A file is missing or cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is larger than any tokenizer.
    #[error("{}: {bytes} bytes, more than the {bound} a tokenizer file may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The bound.
        bound: u64,
    },
    /// A file is not the JSON it should be.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
    /// The model uses something the core does not do; use bridge tokenization.
    #[error("not supported in the filter: {0}")]
    Unsupported(#[from] Unsupported),
    /// The tables do not fit the layout.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// The part of a tokenizer that the core does not know, by its name in the file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{part}: {what}")]
pub struct Unsupported {
    /// Which part: `normalizer`, `pre_tokenizer`, `added_tokens[12]`, ...
    pub part: String,
    /// What it says there.
    pub what: String,
}

impl Unsupported {
    pub(super) fn new(part: impl Into<String>, what: impl Into<String>) -> Self {
        Self { part: part.into(), what: what.into() }
    }
}
