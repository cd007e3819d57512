//! Why a command failed.

use thiserror::Error;

use crate::bridge::StartError;
use crate::config::ConfigError;
use crate::probe::ProbeError;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// A configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
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
    /// Exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start(_) | Self::Unusable(_) | Self::Admin(_) | Self::Answer(_) | Self::System { .. } => 1,
            Self::Usage(_) => 2,
            Self::Config(_) => 3,
        }
    }
}
