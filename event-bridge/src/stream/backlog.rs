//! What a stream's sockets have received and ingest has not taken yet.
//!
//! Live batches never wait for room: the socket must be drained, or the engine drops what it cannot send. Beyond the
//! bound the newest one is dropped here, where it is counted, and ingest finds the gap and asks for it again. Replayed batches
//! do wait: nothing is lost while the engine keeps them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Sharing, StreamEvent, StreamLimits, StreamStats};

/// See the module.
#[derive(Debug)]
pub(super) struct Backlog {
    limits: StreamLimits,
    sharing: Sharing,
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
    fn push(&mut self, event: StreamEvent, sharing: &Sharing) {
        let weight = weight(&event);
        self.stats.backlog_messages += 1;
        self.stats.backlog_bytes += weight;
        sharing.add(weight);
        self.events.push_back(event);
    }

    /// A stream of which nothing waits always has room for one event, or it could wait for others for ever.
    fn has_room(&self, limits: &StreamLimits, sharing: &Sharing, replayed: bool) -> bool {
        self.events.is_empty()
            || self.stats.backlog_messages < limits.backlog_messages as u64
                && self.stats.backlog_bytes < limits.backlog_bytes as u64
                && sharing.has_room(replayed)
    }
}

fn weight(event: &StreamEvent) -> u64 {
    match event {
        StreamEvent::Live { payload, .. } | StreamEvent::Replayed { payload, .. } => payload.len() as u64,
        _ => 0,
    }
}

impl Backlog {
    pub(super) fn new(limits: StreamLimits, sharing: Sharing) -> Self {
        Self { limits, sharing, queue: Mutex::default(), arrived: Notify::new(), taken: Notify::new() }
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
            if !queue.has_room(&self.limits, &self.sharing, false) {
                queue.stats.dropped += 1;
                // Should nothing come after it, ingest would never find the gap.
                if !matches!(queue.events.back(), Some(StreamEvent::Undecodable { .. })) {
                    let reason = "no room for more messages".to_owned();
                    queue.push(StreamEvent::Undecodable { reason }, &self.sharing);
                }
                return;
            }
            queue.push(event, &self.sharing);
        }
        self.arrived.notify_one();
    }

    /// Adds something small that must not be lost.
    pub(super) fn push(&self, event: StreamEvent) {
        self.lock().push(event, &self.sharing);
        self.arrived.notify_one();
    }

    /// Adds a replayed batch once there is room.
    pub(super) async fn push_when_room(&self, event: StreamEvent) {
        loop {
            let taken = self.taken.notified();
            {
                let mut queue = self.lock();
                if queue.has_room(&self.limits, &self.sharing, true) {
                    queue.push(event, &self.sharing);
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
        let weight = weight(&event);
        queue.stats.backlog_bytes = queue.stats.backlog_bytes.saturating_sub(weight);
        self.sharing.subtract(weight);
        Some(event)
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        let waiting = self.stats().backlog_bytes;
        self.sharing.subtract(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;

    use super::*;
    use crate::stream::{ReplayId, SharedLimits};

    fn live(seq: u64) -> StreamEvent {
        StreamEvent::Live { seq, payload: Bytes::from(vec![0; 600]), received: Instant::now() }
    }

    #[tokio::test]
    async fn what_all_streams_have_waiting_is_bounded_and_none_waits_for_another() {
        let sharing = Sharing::new(SharedLimits { backlog_bytes: 1000, ..SharedLimits::default() });
        let [one, other] = [(); 2].map(|()| Backlog::new(StreamLimits::default(), sharing.clone()));
        (0..5).for_each(|seq| one.push_live(live(seq)));
        assert_eq!((one.stats().dropped, sharing.backlog_bytes()), (3, 1200));
        // There is no room, and yet the other one's first batch gets in.
        other.push_live(live(0));
        other.push_live(live(1));
        assert_eq!((other.stats().dropped, sharing.backlog_bytes()), (1, 1800));
        let replayed = StreamEvent::Replayed { id: ReplayId(1), seq: 0, payload: Bytes::from(vec![0; 600]) };
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), other.push_when_room(replayed.clone()));
        assert!(waits.await.is_err());
        other.next().await;
        assert!(matches!(other.next().await, StreamEvent::Undecodable { .. }));
        other.push_when_room(replayed).await;
        drop(one);
        assert_eq!(sharing.backlog_bytes(), 600);
        other.next().await;
        assert_eq!(sharing.backlog_bytes(), 0);
    }
}
