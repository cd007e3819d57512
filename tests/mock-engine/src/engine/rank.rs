//! The handle of one data-parallel rank.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::driver::{Command, Driver, lock};
use super::ticket::{Submission, Ticket};
use crate::cache::{BlockHash, BlockHasher};
use crate::config::Speed;
use crate::events::Publisher;
use crate::metrics::RankMetrics;
use crate::sched::{RequestId, Scheduler, SchedulerLimits};

/// What a rank is started with.
#[derive(Clone, Debug)]
pub struct RankConfig {
    /// Bounds of the scheduler.
    pub limits: SchedulerLimits,
    /// Block hashes.
    pub hasher: BlockHasher,
    /// Speeds.
    pub speed: Speed,
    /// How long blocks are held for another instance.
    pub hold_timeout: Duration,
}

/// Handle of one rank. Dropping it stops the task.
#[derive(Debug)]
pub struct Rank {
    commands: mpsc::UnboundedSender<Command>,
    metrics: Arc<Mutex<RankMetrics>>,
    hung: Arc<AtomicBool>,
    publisher: Option<Arc<Publisher>>,
    next_id: AtomicU64,
    task: JoinHandle<()>,
}

impl Rank {
    /// Starts the task. `publisher` is none when events are off.
    pub fn start(config: RankConfig, publisher: Option<Publisher>) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let metrics = Arc::new(Mutex::new(RankMetrics::default()));
        let hung = Arc::new(AtomicBool::new(false));
        let publisher = publisher.map(Arc::new);
        let driver = Driver {
            scheduler: Scheduler::new(config.limits, config.hasher),
            speed: config.speed,
            hold_timeout: config.hold_timeout,
            commands: receiver,
            own_commands: commands.downgrade(),
            tracked: HashMap::new(),
            metrics: metrics.clone(),
            hung: hung.clone(),
            publisher: publisher.clone(),
        };
        let task = tokio::spawn(driver.run());
        Self { commands, metrics, hung, publisher, next_id: AtomicU64::new(0), task }
    }

    /// Queues a request.
    pub fn submit(&self, submission: Submission) -> Ticket {
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sink, outputs) = mpsc::unbounded_channel();
        // When the task is gone the sink is dropped here and the ticket ends at once.
        let _ = self.commands.send(Command::Add(id, submission, sink));
        Ticket { id, outputs, commands: self.commands.clone(), done: false }
    }

    /// Forgets the cached blocks; false when some are in use or the rank is gone.
    pub async fn reset_cache(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::ResetCache(reply));
        answer.await.unwrap_or(false)
    }

    /// Every cached block hash with its number of copies, as of now.
    pub async fn cached_contents(&self) -> Vec<(BlockHash, usize)> {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::CachedContents(reply));
        answer.await.unwrap_or_default()
    }

    /// Frees the blocks that a finished request holds for another instance; false when it holds none (any more).
    pub async fn release_held(&self, id: RequestId) -> bool {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::ReleaseHeld(id, reply));
        answer.await.unwrap_or(false)
    }

    /// The rank's numbers.
    pub fn metrics(&self) -> RankMetrics {
        lock(&self.metrics).clone()
    }

    /// Requests running and waiting.
    pub fn load(&self) -> (usize, usize) {
        let metrics = lock(&self.metrics);
        (metrics.running, metrics.waiting)
    }

    /// The rank's publisher, when events are on.
    pub fn publisher(&self) -> Option<&Publisher> {
        self.publisher.as_deref()
    }

    /// Whether the step loop stands still.
    pub fn hung(&self) -> bool {
        self.hung.load(Ordering::Relaxed)
    }

    /// Stops the step loop, or lets it go on. Requests queue up meanwhile and nothing answers.
    pub fn set_hung(&self, hung: bool) {
        self.hung.store(hung, Ordering::Relaxed);
        let _ = self.commands.send(Command::Wake);
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.task.abort();
    }
}
