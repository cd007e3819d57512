//! What a prefill engine holds for decode engines, by the name both sides use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::sched::RequestId;

/// What a decode engine sends to fetch blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pull {
    /// Name the blocks are held under.
    pub key: String,
    /// Digest of the prompt that the decode engine was given.
    pub digest: String,
    /// Engine that must hold them.
    pub engine_id: Option<String>,
    /// The blocks it was told.
    pub block_ids: Option<Vec<u32>>,
    /// The number the client gave for the prefill.
    pub number: Option<u64>,
    /// The first answer token it was told.
    pub first_token: Option<u32>,
    /// Whether the prefill may still be under way.
    pub may_be_early: bool,
}

/// Why blocks are not handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullRefusal {
    /// No prefill of this name, or its time is over.
    #[error("no prefill is held under `{0}`: never made, fetched already, or expired")]
    Unknown(String),
    /// The prefill never began or never ended.
    #[error("the prefill `{0}` did not come in time: are both calls made at once?")]
    TimedOut(String),
    /// A parameter that does not fit the held prefill.
    #[error("the transfer parameters do not match the held prefill: {0} differs")]
    Mismatch(&'static str),
}

impl PullRefusal {
    /// This engine has taken the place of the one that is asked for.
    pub const OTHER_ENGINE: Self = Self::Mismatch("the engine id");
}

/// Progress of one prefill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Announced or computing.
    Pending,
    /// Blocks are held.
    Held(HeldPrefill),
    /// Fetched or given up.
    Over,
}

/// A prefill whose blocks are held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HeldPrefill {
    pub(super) rank: usize,
    pub(super) request: RequestId,
    pub(super) digest: String,
    pub(super) engine_id: String,
    pub(super) block_ids: Vec<u32>,
    pub(super) number: Option<u64>,
    pub(super) first_token: u32,
}

/// One named prefill, as both its own request and the decode side see it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) stage: watch::Sender<Stage>,
    /// Whether a decode engine has asked for it.
    pub(super) asked: watch::Sender<bool>,
}

/// Names to prefills. Entries leave when fetched, given up or expired.
#[derive(Debug)]
pub struct TransferStore {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
    /// Counts registrations, so that decode engines can wait for a name.
    registered: watch::Sender<u64>,
    rendezvous_timeout: Duration,
}

impl TransferStore {
    /// An empty store. `rendezvous_timeout` bounds every wait for the other side.
    pub fn new(rendezvous_timeout: Duration) -> Self {
        Self { entries: Mutex::default(), registered: watch::Sender::new(0), rendezvous_timeout }
    }

    /// Number of names known.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no name is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long one side waits for the other.
    pub fn rendezvous_timeout(&self) -> Duration {
        self.rendezvous_timeout
    }

    pub(super) fn register(&self, key: &str) -> Option<Arc<Entry>> {
        let entry = Arc::new(Entry { stage: watch::Sender::new(Stage::Pending), asked: watch::Sender::new(false) });
        let mut entries = self.lock();
        if entries.contains_key(key) {
            return None;
        }
        entries.insert(key.to_owned(), entry.clone());
        drop(entries);
        self.registered.send_modify(|count| *count += 1);
        Some(entry)
    }

    pub(super) fn forget(&self, key: &str) {
        if let Some(entry) = self.lock().remove(key) {
            entry.stage.send_replace(Stage::Over);
        }
    }

    /// The held prefill that `pull` names, waiting for it where the protocol lets the decode side be first.
    pub(super) async fn find(&self, pull: &Pull) -> Result<HeldPrefill, PullRefusal> {
        let deadline = Instant::now() + if pull.may_be_early { self.rendezvous_timeout } else { Duration::ZERO };
        let entry = self.entry(&pull.key, pull.may_be_early, deadline).await?;
        entry.asked.send_replace(true);
        let mut stage = entry.stage.subscribe();
        let settled = timeout_at(deadline, stage.wait_for(|stage| *stage != Stage::Pending)).await;
        let held = match settled {
            Ok(Ok(stage)) => match &*stage {
                Stage::Held(held) => held.clone(),
                Stage::Pending | Stage::Over => return Err(PullRefusal::Unknown(pull.key.clone())),
            },
            Ok(Err(_)) | Err(_) => return Err(PullRefusal::TimedOut(pull.key.clone())),
        };
        held.check(pull)?;
        Ok(held)
    }

    async fn entry(&self, key: &str, wait: bool, deadline: Instant) -> Result<Arc<Entry>, PullRefusal> {
        let mut registered = self.registered.subscribe();
        loop {
            if let Some(entry) = self.lock().get(key).cloned() {
                return Ok(entry);
            }
            if !wait {
                return Err(PullRefusal::Unknown(key.to_owned()));
            }
            match timeout_at(deadline, registered.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(PullRefusal::TimedOut(key.to_owned())),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPrefill {
    fn check(&self, pull: &Pull) -> Result<(), PullRefusal> {
        if pull.engine_id.as_ref().is_some_and(|id| *id != self.engine_id) {
            return Err(PullRefusal::OTHER_ENGINE);
        }
        let same = [
            ("the prompt", pull.digest == self.digest),
            ("the block list", pull.block_ids.as_ref().is_none_or(|ids| *ids == self.block_ids)),
            ("disagg_request_id", pull.number == self.number),
            ("the first answer token", pull.first_token.is_none_or(|token| token == self.first_token)),
        ];
        match same.iter().find(|(_, same)| !same) {
            Some((what, _)) => Err(PullRefusal::Mismatch(what)),
            None => Ok(()),
        }
    }
}
