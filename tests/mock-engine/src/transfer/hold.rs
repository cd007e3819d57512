//! The prefill side of one request: registered under a name, computed, held, fetched.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::store::{Entry, HeldPrefill, Stage, TransferStore};
use crate::sched::RequestId;

/// What a finished prefill leaves for its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldAnswer {
    /// Name it is held under.
    pub key: String,
    /// Rank that holds it.
    pub rank: usize,
    /// Engine id of that rank.
    pub engine_id: String,
    /// Its blocks.
    pub block_ids: Vec<u32>,
    /// Number the client gave.
    pub number: Option<u64>,
    /// First answer token.
    pub first_token: u32,
}

/// A prefill that decode engines can see. Dropped before [`Self::hold`], it disappears.
#[derive(Debug)]
pub struct Registration {
    store: Arc<TransferStore>,
    key: String,
    entry: Arc<Entry>,
    keep: bool,
}

impl Registration {
    /// Makes `key` known; `None` when it is in use already.
    pub fn new(store: &Arc<TransferStore>, key: String) -> Option<Self> {
        let entry = store.register(&key)?;
        Some(Self { store: store.clone(), key, entry, keep: false })
    }

    /// Name it is known under.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Waits until a decode engine asks for it; false when none does in time.
    pub async fn decode_connected(&self) -> bool {
        let mut asked = self.entry.asked.subscribe();
        let wait = timeout(self.store.rendezvous_timeout(), asked.wait_for(|asked| *asked)).await;
        matches!(wait, Ok(Ok(_)))
    }

    /// Makes the finished prefill fetchable for `hold_timeout`.
    pub fn hold(&mut self, answer: &HeldAnswer, request: RequestId, digest: String, hold_timeout: Duration) {
        self.keep = true;
        self.entry.stage.send_replace(Stage::Held(HeldPrefill {
            rank: answer.rank,
            request,
            digest,
            engine_id: answer.engine_id.clone(),
            block_ids: answer.block_ids.clone(),
            number: answer.number,
            first_token: answer.first_token,
        }));
        let (store, key) = (self.store.clone(), self.key.clone());
        tokio::spawn(async move {
            tokio::time::sleep(hold_timeout).await;
            store.forget(&key);
        });
    }

    /// Waits until the blocks were fetched; false when they were not within `limit`.
    pub async fn fetched(&self, limit: Duration) -> bool {
        let mut stage = self.entry.stage.subscribe();
        matches!(timeout(limit, stage.wait_for(|stage| *stage == Stage::Over)).await, Ok(Ok(_)))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.keep {
            self.store.forget(&self.key);
        }
    }
}
