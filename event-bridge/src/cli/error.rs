//! Why a command failed.

use std::path::PathBuf;

use kv_routing::tokens::{LoadError, PromptError};
use thiserror::Error;

use crate::bridge::StartError;
use crate::config::ConfigError;
use crate::cross_check::Difference;
use crate::policy::Refused;
use crate::probe::ProbeError;
use crate::tokenizer::{BridgeError, CompileError, FirstDifference, ReferenceError};

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// A configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A policy document is refused; the old one stays in force.
    #[error("{} is refused: {refused}", path.display())]
    Policy {
        /// The document.
        path: PathBuf,
        /// What is wrong with it.
        refused: Refused,
    },
    /// It was waited for longer than asked.
    #[error("the document is in force, but not everywhere: {}", lagging(pending, unreachable))]
    NotEverywhere {
        /// Envoys with threads that run another one.
        pending: Vec<String>,
        /// Envoys that cannot be asked.
        unreachable: Vec<String>,
    },
    /// The bridge cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Something the configuration names cannot be used. Each has been printed.
    #[error("{0} of the things that the configuration names cannot be used")]
    Unusable(usize),
    /// The admin server of a bridge does not answer.
    #[error("{0}: is the bridge running, and is this its admin address?")]
    Admin(#[from] ProbeError),
    /// The admin server's answer is not understood.
    #[error("the answer is not what this version understands: {0}")]
    Answer(#[from] serde_json::Error),
    /// A model's tokenizer cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A compiled tokenizer cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The reference library refuses.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The filter's core and the reference library differ.
    #[error("the filter's core differs from the reference: {0}")]
    Difference(#[from] FirstDifference),
    /// An engine computes other prompts than the filter hashes.
    #[error("the engine computes other prompts than the filter: {0}")]
    Engine(Box<Difference>),
    /// A prompt cannot be tokenized by the reference library either.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// A prompt cannot be made.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The input is not what the command takes.
    #[error("{0}")]
    Input(String),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Wrong usage that the parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl CliError {
    /// Exit code of the process: 4 says that the core differs from reference or engine, so that scripts can tell it from a broken file.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Config(_) | Self::Policy { .. } => 3,
            Self::Difference(_) | Self::Engine(_) => 4,
            Self::Start(_)
            | Self::NotEverywhere { .. }
            | Self::Unusable(_)
            | Self::Admin(_)
            | Self::Answer(_)
            | Self::Compile(_)
            | Self::Load(_)
            | Self::Reference(_)
            | Self::Bridge(_)
            | Self::Prompt(_)
            | Self::Input(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::System { .. } => 1,
        }
    }
}

/// Who does not run a document, in words.
fn lagging(pending: &[String], unreachable: &[String]) -> String {
    let group = |names: &[String], what: &str| (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")));
    let groups = [group(pending, "still run another one"), group(unreachable, "cannot be reached")];
    groups.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
