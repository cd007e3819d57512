//! What others ask of a pool's task.

use std::sync::Arc;

use bytes::Bytes;
use kv_routing::block::SequenceHash;
use kv_routing::index::Overlaps;
use kv_routing::wire::{Decision, PoolId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::snapshot::{IndexDump, PoolSnapshot};
use crate::publish::EnvoyIndex;
use crate::tokenizer::BridgeTokenizer;

/// Requests waiting for a pool; publishers and admin wait when there are more.
const QUEUE: usize = 256;

/// A request to a pool's task.
#[derive(Debug)]
pub enum PoolRequest {
    /// Pages an Envoy does not have yet.
    Pages {
        /// The Envoy.
        envoy: EnvoyIndex,
        /// What became of the pages of its last request.
        previous: PageOutcome,
        /// Stop after the page that reaches this many bytes.
        max_bytes: usize,
        /// Where the pages go.
        reply: oneshot::Sender<PageBatch>,
    },
    /// Decisions of an Envoy in this pool.
    Decisions(Vec<Decision>),
    /// Who holds how much of a chain.
    Overlaps {
        /// The chain.
        chain: Vec<SequenceHash>,
        /// Where the answer goes.
        reply: oneshot::Sender<Overlaps>,
    },
    /// State for admin and metrics.
    Snapshot(oneshot::Sender<PoolSnapshot>),
    /// Everything in the index.
    Dump(oneshot::Sender<IndexDump>),
    /// The tokenizer of prompts that the filter's core cannot tokenize.
    Tokenizer(oneshot::Sender<Option<Arc<BridgeTokenizer>>>),
}

/// What became of a batch of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// The Envoy has them.
    Acknowledged,
    /// It may not have them.
    Lost,
    /// It has no pages at all.
    Wiped,
}

/// Pages for an Envoy.
#[derive(Clone, Debug)]
pub struct PageBatch {
    /// The page set is that of `2^page_bits` pages.
    pub page_bits: u8,
    /// Numbers and bytes.
    pub pages: Vec<(u32, Bytes)>,
    /// More pages are waiting.
    pub more: bool,
    /// The Envoy has acknowledged every page of this set at least once.
    pub complete: bool,
    /// When the oldest event was received that these pages contain and earlier ones did not.
    pub oldest_event: Option<Instant>,
}

/// Asks a pool's task. Clones ask the same one.
#[derive(Clone, Debug)]
pub struct PoolHandle {
    /// The pool.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    tx: mpsc::Sender<PoolRequest>,
}

/// The pool's task has ended: the bridge is shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGone;

impl PoolHandle {
    /// A handle and the end the pool's task reads.
    pub fn new(id: PoolId, name: String) -> (Self, mpsc::Receiver<PoolRequest>) {
        let (tx, rx) = mpsc::channel(QUEUE);
        (Self { id, name, tx }, rx)
    }

    /// Pages that `envoy` does not have yet, at most about `max_bytes`.
    ///
    /// # Errors
    /// [`PoolGone`].
    pub async fn pages(
        &self,
        envoy: EnvoyIndex,
        previous: PageOutcome,
        max_bytes: usize,
    ) -> Result<PageBatch, PoolGone> {
        self.ask(|reply| PoolRequest::Pages { envoy, previous, max_bytes, reply }).await
    }

    /// State for admin and metrics.
    ///
    /// # Errors
    /// [`PoolGone`].
    pub async fn snapshot(&self) -> Result<PoolSnapshot, PoolGone> {
        self.ask(PoolRequest::Snapshot).await
    }

    /// Everything in the index. The pool does nothing else while it is copied, about 0.1 s per million holdings.
    ///
    /// # Errors
    /// [`PoolGone`].
    pub async fn dump(&self) -> Result<IndexDump, PoolGone> {
        self.ask(PoolRequest::Dump).await
    }

    /// Who holds how much of `chain` now.
    ///
    /// # Errors
    /// [`PoolGone`].
    pub async fn overlaps(&self, chain: Vec<SequenceHash>) -> Result<Overlaps, PoolGone> {
        self.ask(|reply| PoolRequest::Overlaps { chain, reply }).await
    }

    /// The tokenizer of prompts that the filter's core cannot tokenize; `None` when there are none.
    ///
    /// # Errors
    /// [`PoolGone`].
    pub async fn bridge_tokenizer(&self) -> Result<Option<Arc<BridgeTokenizer>>, PoolGone> {
        self.ask(PoolRequest::Tokenizer).await
    }

    /// Hands over decisions; `false` when the pool is too busy to take them.
    pub fn decisions(&self, decisions: Vec<Decision>) -> bool {
        self.tx.try_send(PoolRequest::Decisions(decisions)).is_ok()
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> PoolRequest) -> Result<T, PoolGone> {
        let (tx, rx) = oneshot::channel();
        self.tx.send(request(tx)).await.map_err(|_| PoolGone)?;
        rx.await.map_err(|_| PoolGone)
    }
}
