//! The endpoint file of a pool: when it is written, and what happens when it cannot be.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info};

use super::membership::Membership;
use crate::config::PoolConfig;
use crate::eds::EdsFile;

/// A file that could not be written is tried again this often.
const RETRY: Duration = Duration::from_secs(1);

/// The endpoint file, if the bridge writes one.
#[derive(Debug)]
pub(super) struct Endpoints {
    pool: String,
    file: Option<EdsFile>,
    pending: bool,
    /// After a failure: not before then.
    retry_at: Option<Instant>,
    error: Option<String>,
}

impl Endpoints {
    pub(super) fn new(config: &PoolConfig) -> Self {
        let file = config.eds_file.clone().map(|path| EdsFile::new(path, config.cluster.clone()));
        Self { pool: config.name.clone(), file, pending: false, retry_at: None, error: None }
    }

    /// Members have changed.
    pub(super) fn invalidate(&mut self) {
        self.pending = true;
        self.retry_at = None;
    }

    /// Why the file is not up to date, when it is not.
    pub(super) fn error(&self) -> Option<&String> {
        self.error.as_ref()
    }

    /// Writes the file if members have changed since, which is what lets new ones into the target table. Returns whether
    /// it was due and went well.
    pub(super) fn write(&mut self, membership: &mut Membership, now: Instant) -> bool {
        if !self.pending || self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        match self.file.as_ref().map(|file| file.write(&membership.endpoints())) {
            Some(Err(error)) => {
                let text = error.to_string();
                if self.error.as_ref() != Some(&text) {
                    error!(pool = self.pool, error = text, "endpoint file not written, new workers have to wait");
                }
                self.error = Some(text);
                self.retry_at = Some(now + RETRY);
                return false;
            }
            Some(Ok(true)) => info!(pool = self.pool, "endpoint file written"),
            Some(Ok(false)) | None => {}
        }
        self.pending = false;
        self.error = None;
        membership.listed();
        true
    }
}
