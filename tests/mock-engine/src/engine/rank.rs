//! One data-parallel rank: its task, and the handle the HTTP side talks to.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::clock::StepClock;
use super::tracked::Tracked;
use crate::cache::{BlockHash, BlockHasher};
use crate::config::Speed;
use crate::events::Publisher;
use crate::metrics::RankMetrics;
use crate::sched::{Emission, Output, RequestId, RequestSpec, Scheduler, SchedulerLimits, Step};

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

/// A request for a rank.
pub struct Submission {
    /// What to compute.
    pub spec: RequestSpec,
    /// Answers asked for in the whole request, for the metrics.
    pub n: u32,
    /// Told when the blocks for KV from another instance are reserved (requests with `load`).
    pub reserved: Option<oneshot::Sender<()>>,
}

/// A submitted request: its tokens, and its end when dropped early.
#[derive(Debug)]
pub struct Ticket {
    id: RequestId,
    outputs: mpsc::UnboundedReceiver<Output>,
    commands: mpsc::UnboundedSender<Command>,
    done: bool,
}

/// The tokens, in order. Ends after the last one; earlier only when the rank is gone.
impl Stream for Ticket {
    type Item = Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Output>> {
        let polled = self.outputs.poll_recv(context);
        if let Poll::Ready(output) = &polled {
            self.done = output.as_ref().is_none_or(|output| output.finish.is_some());
        }
        polled
    }
}

impl Ticket {
    /// Name of the request within its rank.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Tells the rank that the KV of this request has arrived in its blocks.
    pub fn loaded(&self) {
        let _ = self.commands.send(Command::Loaded(self.id));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.done {
            // A rank that is gone has nothing left to free.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}

enum Command {
    Add(RequestId, Submission, mpsc::UnboundedSender<Output>),
    Abort(RequestId),
    ResetCache(oneshot::Sender<bool>),
    CachedContents(oneshot::Sender<Vec<(BlockHash, usize)>>),
    Loaded(RequestId),
    ReleaseHeld(RequestId, oneshot::Sender<bool>),
    ExpireHeld(RequestId),
    Wake,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Driver {
    scheduler: Scheduler,
    speed: Speed,
    hold_timeout: Duration,
    commands: mpsc::UnboundedReceiver<Command>,
    own_commands: mpsc::WeakUnboundedSender<Command>,
    tracked: HashMap<RequestId, Tracked>,
    metrics: Arc<Mutex<RankMetrics>>,
    hung: Arc<AtomicBool>,
    publisher: Option<Arc<Publisher>>,
}

impl Driver {
    async fn run(mut self) {
        let mut clock = StepClock::new();
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.apply(command);
            }
            let hung = self.hung.load(Ordering::Relaxed);
            let step = if hung { Step::default() } else { self.scheduler.schedule() };
            self.note_load();
            self.announce_loads(&step);
            if step.is_empty() {
                let Some(command) = self.commands.recv().await else { return };
                self.apply(command);
                clock.resume();
                continue;
            }
            let now = Instant::now();
            for (id, _) in &step.scheduled {
                if let Some(tracked) = self.tracked.get_mut(id) {
                    tracked.started(now, &mut lock(&self.metrics));
                }
            }
            lock(&self.metrics).iteration_tokens.observe(step.scheduled.iter().map(|(_, n)| *n as f64).sum());
            clock.pass(self.speed.step(step.prefill_tokens, step.decodes)).await;
            let emissions = self.scheduler.complete(&step);
            // Numbers first: whoever reads an answer and then `/metrics` must find the answer counted.
            self.note_load();
            self.publish();
            self.deliver(emissions);
            // Steps of no duration must not starve the rest of the process.
            tokio::task::yield_now().await;
        }
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Add(id, submission, sink) => {
                let spec = submission.spec;
                lock(&self.metrics).request_params_n.observe(f64::from(submission.n));
                self.tracked.insert(id, Tracked::new(sink, submission.reserved, spec.prompt.len(), spec.max_tokens));
                self.scheduler.add(id, spec);
            }
            Command::Abort(id) => {
                self.scheduler.abort(id);
                if self.tracked.remove(&id).is_some() {
                    lock(&self.metrics).finished_abort += 1;
                }
            }
            Command::ResetCache(reply) => {
                let _ = reply.send(self.scheduler.pool_mut().reset());
            }
            Command::CachedContents(reply) => {
                let _ = reply.send(self.scheduler.pool().cached_contents());
            }
            Command::Loaded(id) => self.scheduler.loaded(id),
            Command::ReleaseHeld(id, reply) => {
                let released = self.scheduler.release_held(id);
                // Numbers first: whoever gets the reply and reads `/metrics` must find the hold gone.
                self.note_load();
                let _ = reply.send(released);
            }
            Command::ExpireHeld(id) => {
                if self.scheduler.release_held(id) {
                    lock(&self.metrics).held_expired += 1;
                    self.note_load();
                }
            }
            Command::Wake => {}
        }
    }

    fn note_load(&self) {
        let mut metrics = lock(&self.metrics);
        metrics.running = self.scheduler.running();
        metrics.waiting = self.scheduler.waiting();
        metrics.deferred = self.scheduler.loading();
        (metrics.held_requests, metrics.held_blocks) = self.scheduler.held();
        metrics.kv_usage = self.scheduler.pool().usage();
        metrics.cached_blocks = self.scheduler.pool().cached_hashes();
        metrics.scheduler = self.scheduler.stats();
    }

    /// Lets the waiting side fetch KV for requests whose blocks are reserved now.
    fn announce_loads(&mut self, step: &Step) {
        for id in &step.loads {
            if let Some(reserved) = self.tracked.get_mut(id).and_then(|tracked| tracked.reserved.take()) {
                // A side that went away is noticed by its ticket.
                let _ = reserved.send(());
            }
        }
    }

    /// Frees held blocks that nobody fetches in time.
    fn expire_later(&self, id: RequestId) {
        let (timeout, commands) = (self.hold_timeout, self.own_commands.clone());
        tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            if let Some(commands) = commands.upgrade() {
                let _ = commands.send(Command::ExpireHeld(id));
            }
        });
    }

    /// One batch per step, before the step's tokens reach the clients.
    fn publish(&mut self) {
        let events = self.scheduler.pool_mut().take_events();
        if let Some(publisher) = &self.publisher {
            publisher.publish(events);
        }
    }

    fn deliver(&mut self, emissions: Vec<Emission>) {
        let now = Instant::now();
        for Emission { request, preemptions, output } in emissions {
            let Some(tracked) = self.tracked.get_mut(&request) else { continue };
            let mut metrics = lock(&self.metrics);
            tracked.token(now, &mut metrics);
            if output.finish.is_some() {
                tracked.finished(now, &output, preemptions, &mut metrics);
            }
            drop(metrics);
            let (finished, held) = (output.finish.is_some(), output.held.is_some());
            // A client that went away is noticed by its ticket.
            let _ = tracked.sink.send(output);
            if finished {
                self.tracked.remove(&request);
            }
            if held {
                self.expire_later(request);
            }
        }
    }
}
