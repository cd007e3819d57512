//! What a stream's sockets have received and ingest has not taken yet.
//!
//! Live batches never wait for room: the socket must be drained, or the engine drops what it cannot send. Beyond the
//! bound the newest one is dropped here, where it is counted, and ingest finds the gap and asks for it again. Replayed batches
//! do wait: nothing is lost while the engine keeps them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{StreamEvent, StreamLimits, StreamStats};

/// See the module.
#[derive(Debug)]
pub(super) struct Backlog {
    limits: StreamLimits,
    queue: Mutex<Queue>,
    arrived: Notify,
    taken: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<StreamEvent>,
    stats: StreamStats,
}

impl Queue {
    fn push(&mut self, event: StreamEvent) {
        self.stats.backlog_messages += 1;
        self.stats.backlog_bytes += weight(&event);
        self.events.push_back(event);
    }

    fn has_room(&self, limits: &StreamLimits) -> bool {
        self.stats.backlog_messages < limits.backlog_messages as u64
            && self.stats.backlog_bytes < limits.backlog_bytes as u64
    }
}

fn weight(event: &StreamEvent) -> u64 {
    match event {
        StreamEvent::Live { payload, .. } | StreamEvent::Replayed { payload, .. } => payload.len() as u64,
        _ => 0,
    }
}

impl Backlog {
    pub(super) fn new(limits: StreamLimits) -> Self {
        Self { limits, queue: Mutex::default(), arrived: Notify::new(), taken: Notify::new() }
    }

    /// Nothing in here can leave the queue half changed, so a panic elsewhere does not matter.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut StreamStats)) {
        change(&mut self.lock().stats);
    }

    pub(super) fn stats(&self) -> StreamStats {
        self.lock().stats
    }

    /// Adds a live batch, unless there is no room.
    pub(super) fn push_live(&self, event: StreamEvent) {
        {
            let mut queue = self.lock();
            queue.stats.received += 1;
            if !queue.has_room(&self.limits) {
                queue.stats.dropped += 1;
                // Should nothing come after it, ingest would never find the gap.
                if !matches!(queue.events.back(), Some(StreamEvent::Undecodable { .. })) {
                    queue.push(StreamEvent::Undecodable { reason: "no room for more messages".to_owned() });
                }
                return;
            }
            queue.push(event);
        }
        self.arrived.notify_one();
    }

    /// Adds something small that must not be lost.
    pub(super) fn push(&self, event: StreamEvent) {
        self.lock().push(event);
        self.arrived.notify_one();
    }

    /// Adds a replayed batch once there is room.
    pub(super) async fn push_when_room(&self, event: StreamEvent) {
        loop {
            let taken = self.taken.notified();
            {
                let mut queue = self.lock();
                if queue.has_room(&self.limits) {
                    queue.push(event);
                    break;
                }
            }
            taken.await;
        }
        self.arrived.notify_one();
    }

    /// Takes the oldest event. There is one taker.
    pub(super) async fn next(&self) -> StreamEvent {
        loop {
            let arrived = self.arrived.notified();
            if let Some(event) = self.pop() {
                self.taken.notify_one();
                return event;
            }
            arrived.await;
        }
    }

    fn pop(&self) -> Option<StreamEvent> {
        let mut queue = self.lock();
        let event = queue.events.pop_front()?;
        queue.stats.backlog_messages = queue.stats.backlog_messages.saturating_sub(1);
        queue.stats.backlog_bytes = queue.stats.backlog_bytes.saturating_sub(weight(&event));
        Some(event)
    }
}
