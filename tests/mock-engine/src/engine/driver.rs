//! The step loop of one rank.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::clock::StepClock;
use super::ticket::Submission;
use super::tracked::Tracked;
use crate::cache::BlockHash;
use crate::config::Speed;
use crate::events::Publisher;
use crate::metrics::RankMetrics;
use crate::sched::{Emission, Output, RequestId, Scheduler, Step};

/// What the handle asks of the loop.
pub(super) enum Command {
    Add(RequestId, Submission, mpsc::UnboundedSender<Output>),
    Abort(RequestId),
    ResetCache(oneshot::Sender<bool>),
    CachedContents(oneshot::Sender<Vec<(BlockHash, usize)>>),
    Loaded(RequestId),
    ReleaseHeld(RequestId, oneshot::Sender<bool>),
    ExpireHeld(RequestId),
    Wake,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One rank's requests on their way through time.
pub(super) struct Driver {
    pub(super) scheduler: Scheduler,
    pub(super) speed: Speed,
    pub(super) hold_timeout: Duration,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) own_commands: mpsc::WeakUnboundedSender<Command>,
    pub(super) tracked: HashMap<RequestId, Tracked>,
    pub(super) metrics: Arc<Mutex<RankMetrics>>,
    pub(super) hung: Arc<AtomicBool>,
    pub(super) publisher: Option<Arc<Publisher>>,
}

impl Driver {
    /// Runs until the handle is gone.
    pub(super) async fn run(mut self) {
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
