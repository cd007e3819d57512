//! What the streams of a pool share: turns to be replayed to, and room for what waits for ingest. A bridge that starts beside
//! two hundred engines with full replay buffers would otherwise hold all of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds of all streams of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Replays under way at a time; further ones wait their turn.
    pub replays: usize,
    /// Bytes that wait for ingest, of all streams. Beyond them a stream that has something waiting gets nothing more: live batches
    /// are dropped and counted, and ingest asks for them again. Replays wait at half of it, so that they do not cost live ones.
    pub backlog_bytes: u64,
}

impl Default for SharedLimits {
    fn default() -> Self {
        Self { replays: 32, backlog_bytes: 1 << 30 }
    }
}

/// See the module. A copy shares with the original.
#[derive(Clone, Debug)]
pub struct Sharing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    turns: Arc<Semaphore>,
    backlog_bytes: AtomicU64,
    most_bytes: u64,
}

impl Default for Sharing {
    fn default() -> Self {
        Self::new(SharedLimits::default())
    }
}

impl Sharing {
    /// Nothing is under way and nothing waits.
    pub fn new(limits: SharedLimits) -> Self {
        let turns = Arc::new(Semaphore::new(limits.replays.max(1)));
        Self(Arc::new(Inner { turns, backlog_bytes: AtomicU64::new(0), most_bytes: limits.backlog_bytes }))
    }

    /// Bytes that wait for ingest, of all streams.
    pub fn backlog_bytes(&self) -> u64 {
        self.0.backlog_bytes.load(Ordering::Relaxed)
    }

    /// Whether more may wait, out of a replay or live.
    pub(super) fn has_room(&self, replayed: bool) -> bool {
        self.backlog_bytes() < if replayed { self.0.most_bytes / 2 } else { self.0.most_bytes }
    }

    pub(super) fn add(&self, bytes: u64) {
        self.0.backlog_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.0.backlog_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Waits for a turn, in the order in which streams asked. It ends when the permit is dropped; never without one, since
    /// nobody closes the semaphore.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turns).acquire_owned().await.ok()
    }
}
