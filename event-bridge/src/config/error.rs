//! Why a configuration or workers file is refused.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file that cannot be used, with the field at fault and what to do about it.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}: check that the file exists and that this process may read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any sensible one.
    #[error("{}: larger than {limit} bytes: is this the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Most bytes accepted.
        limit: u64,
    },
    /// The file is not the YAML or JSON it should be.
    #[error("{}: {}{message}", path.display(), Named(field))]
    Parse {
        /// The file.
        path: PathBuf,
        /// Path of the field, as in `pools[0].name`; empty when the text is not YAML at all.
        field: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A value is well-formed and still wrong.
    #[error("{}: {}{problem}", path.display(), Named(&problem.field))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Field, problem and fix.
        problem: Problem,
    },
}

struct Named<'a>(&'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

/// A refused value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, as in `pools[0].name`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.fix)
    }
}

impl Problem {
    pub(super) fn new(field: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into(), fix: fix.into() }
    }

    pub(super) fn in_file(self, path: &Path) -> ConfigError {
        ConfigError::Invalid { path: path.to_owned(), problem: self }
    }
}
