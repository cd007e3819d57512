//! The desk as the rest of the bridge uses it: shared, and published on every change.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kv_routing::target::TargetId;
use kv_routing::wire::UnixMillis;
use tracing::{info, warn};

use super::{Desk, Entry, Problem, Refused, RollbackError, ShadowEntry, ShadowTally, Surroundings, TallySummary};
use crate::clock;
use crate::discovery::watch_text;
use crate::publish::{Catalog, PolicyView};

/// Handle to a bridge's policy documents. Clones share them.
#[derive(Clone, Debug)]
pub struct PolicyOffice(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    desk: Mutex<Desk>,
    catalog: Catalog,
    tally: ShadowTally,
    file: Mutex<FileState>,
}

/// What became of the watched file's latest content.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    /// Which file is watched.
    pub path: Option<PathBuf>,
    /// Why its latest content is not in force.
    pub refused: Option<Refused>,
    /// Why it could not be read.
    pub unreadable: Option<String>,
}

impl PolicyOffice {
    /// An office without a document, which publishes to `catalog`; decisions are counted in `tally`.
    pub fn new(surroundings: Surroundings, catalog: Catalog, tally: ShadowTally) -> Self {
        Self(Arc::new(Inner { desk: Mutex::new(Desk::new(surroundings)), catalog, tally, file: Mutex::default() }))
    }

    /// How the shadow does, if there is one; `targets` are all that could be chosen.
    pub fn tally(&self, targets: &[TargetId]) -> Option<TallySummary> {
        self.read(|desk| desk.shadow().is_some()).then(|| self.0.tally.summary(targets))
    }

    /// Runs `look` on the desk.
    pub fn read<T>(&self, look: impl FnOnce(&Desk) -> T) -> T {
        look(&self.0.desk.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// State of the watched file.
    pub fn file(&self) -> FileState {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks a document without effect.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check(&self, text: &[u8]) -> Result<Vec<Problem>, Refused> {
        self.read(|desk| desk.check(text))
    }

    /// Puts a document in force and publishes it.
    ///
    /// # Errors
    /// [`Refused`]; the old one stays in force.
    pub fn put(&self, text: &[u8], who: &str) -> Result<Entry, Refused> {
        self.change(|desk, now| desk.put(text, who, now).cloned())
    }

    /// Puts an earlier document in force again and publishes it.
    ///
    /// # Errors
    /// [`RollbackError`].
    pub fn rollback(&self, version: Option<u64>, who: &str) -> Result<Entry, RollbackError> {
        self.change(|desk, now| desk.rollback(version, who, now).cloned())
    }

    /// Loads a shadow and publishes it.
    ///
    /// # Errors
    /// [`Refused`]; the old shadow stays.
    pub fn set_shadow(&self, text: &[u8], sample_per_million: u32, who: &str) -> Result<ShadowEntry, Refused> {
        self.change(|desk, now| desk.set_shadow(text, sample_per_million, who, now).cloned())
    }

    /// Drops the shadow. `false` when there was none.
    pub fn drop_shadow(&self) -> bool {
        self.change(|desk, _| if desk.drop_shadow() { Ok(()) } else { Err(()) }).is_ok()
    }

    /// Makes a change and publishes what is in force then. Both happen under one lock, so that Envoys get documents in order.
    fn change<T, E>(&self, make: impl FnOnce(&mut Desk, UnixMillis) -> Result<T, E>) -> Result<T, E> {
        let mut desk = self.0.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let before = desk.document().map(|document| document.version);
        let made = make(&mut desk, clock::unix_millis())?;
        if let Some(document) = desk.document()
            && before != Some(document.version)
        {
            match document.encode() {
                Ok(bytes) => {
                    info!(version = document.version, "policy document in force");
                    self.0.tally.restart(document.version);
                    self.0.catalog.set_policy(PolicyView { version: document.version, bytes: Bytes::from(bytes) });
                }
                // Documents are bounded far below what a message may be.
                Err(error) => warn!(%error, "policy document cannot be encoded"),
            }
        }
        Ok(made)
    }

    /// Follows a file: every change of it that is a good document is put in force.
    pub async fn follow(self, path: PathBuf) {
        self.note(|file| file.path = Some(path.clone()));
        let who = format!("file {}", path.display());
        let (tx, mut rx) = tokio::sync::mpsc::channel(1);
        let watching = watch_text(path, tx);
        tokio::pin!(watching);
        loop {
            let news = tokio::select! {
                () = &mut watching => return,
                news = rx.recv() => news,
            };
            match news {
                None => return,
                Some(Ok(text)) => match self.put(text.as_bytes(), &who) {
                    Ok(_) => self.note(|file| (file.refused, file.unreadable) = (None, None)),
                    Err(refused) => {
                        warn!(%refused, "policy file refused, the old document stays in force");
                        self.note(|file| (file.refused, file.unreadable) = (Some(refused), None));
                    }
                },
                Some(Err(error)) => {
                    warn!(%error, "policy file cannot be read, the old document stays in force");
                    self.note(|file| file.unreadable = Some(error.to_string()));
                }
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut FileState)) {
        change(&mut self.0.file.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
