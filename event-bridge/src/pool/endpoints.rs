//! The endpoint files of a pool, one for prefill workers and one for all others: when they are written, and what happens
//! when one cannot be.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info};

use super::membership::Membership;
use crate::config::PoolConfig;
use crate::eds::EdsFile;

/// A file that could not be written is tried again this often.
const RETRY: Duration = Duration::from_secs(1);

/// The endpoint files that the bridge writes.
#[derive(Debug)]
pub(super) struct Endpoints {
    pool: String,
    /// With whether it is that of the prefill workers.
    files: Vec<(bool, EdsFile)>,
    pending: bool,
    /// After a failure: not before then.
    retry_at: Option<Instant>,
    error: Option<String>,
}

impl Endpoints {
    pub(super) fn new(config: &PoolConfig) -> Self {
        let clusters =
            [(false, &config.eds_file, &config.cluster), (true, &config.handoff.eds_file, &config.handoff.cluster)];
        let file = |(prefill, path, cluster): (bool, &Option<PathBuf>, &String)| {
            Some((prefill, EdsFile::new(path.clone()?, cluster.clone())))
        };
        let files = clusters.into_iter().filter_map(file).collect();
        Self { pool: config.name.clone(), files, pending: false, retry_at: None, error: None }
    }

    /// Members have changed.
    pub(super) fn invalidate(&mut self) {
        self.pending = true;
        self.retry_at = None;
    }

    /// Why a file is not up to date, when one is not.
    pub(super) fn error(&self) -> Option<&String> {
        self.error.as_ref()
    }

    /// Writes the files if members have changed since, which is what lets new ones into the target table. Returns whether
    /// that was due and went well.
    pub(super) fn write(&mut self, membership: &mut Membership, now: Instant) -> bool {
        if !self.pending || self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        for (prefill, file) in &self.files {
            match file.write(&membership.endpoints(*prefill)) {
                Err(error) => {
                    let text = error.to_string();
                    if self.error.as_ref() != Some(&text) {
                        error!(pool = self.pool, error = text, "endpoint file not written, new workers have to wait");
                    }
                    self.error = Some(text);
                    self.retry_at = Some(now + RETRY);
                    return false;
                }
                Ok(true) => info!(pool = self.pool, prefill, "endpoint file written"),
                Ok(false) => {}
            }
        }
        self.pending = false;
        self.error = None;
        membership.listed();
        true
    }
}
