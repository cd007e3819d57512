//! A running stream.

use std::sync::Arc;

use kv_routing::target::Slot;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::backlog::Backlog;
use super::replay::Request;
use super::{ReplayId, Sharing, StreamEvent, StreamSpec, live, replay};

/// A running stream; dropping it ends its tasks and closes its sockets.
#[derive(Debug)]
pub struct StreamHandle {
    slot: Slot,
    backlog: Arc<Backlog>,
    requests: watch::Sender<Option<Request>>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

/// Counters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Batches and other reports received and not yet handed over.
    pub backlog_messages: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Live messages dropped because the backlog was full.
    pub dropped: u64,
    /// Live messages received.
    pub received: u64,
    /// Connections made; of polled engines, times that polling began to work.
    pub connects: u64,
    /// Attempts to connect that failed; of polled engines, polls.
    pub connect_failures: u64,
    /// Of a bound socket: who is connected, or was last.
    pub peer: Option<std::net::SocketAddr>,
}

/// Starts a stream. It connects and reconnects by itself and reports everything through `tx`, tagged with `slot`.
/// A full `tx` delays the reports, never the socket.
pub fn spawn(slot: Slot, spec: StreamSpec, sharing: &Sharing, tx: mpsc::Sender<(Slot, StreamEvent)>) -> StreamHandle {
    let backlog = Arc::new(Backlog::new(spec.limits, sharing.clone()));
    let spec = Arc::new(spec);
    let (requests, asked) = watch::channel(None);
    let mut tasks = JoinSet::new();
    tasks.spawn(live::run(spec.clone(), backlog.clone()));
    tasks.spawn(replay::run(spec, backlog.clone(), sharing.clone(), asked));
    tasks.spawn(hand_over(slot, backlog.clone(), tx));
    StreamHandle { slot, backlog, requests, _tasks: tasks }
}

/// Moves reports from the backlog to ingest, at ingest's pace. A stream that has nothing to report takes no room in `tx`: there
/// may be more streams than it has places.
async fn hand_over(slot: Slot, backlog: Arc<Backlog>, tx: mpsc::Sender<(Slot, StreamEvent)>) {
    while tx.send((slot, backlog.next().await)).await.is_ok() {}
}

impl StreamHandle {
    /// The target it belongs to.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Asks the engine for every batch it still has from `from` on. A request still running is abandoned.
    pub fn replay(&self, id: ReplayId, from: u64) {
        self.requests.send_replace(Some(Request { id, from }));
    }

    /// Counters.
    pub fn stats(&self) -> StreamStats {
        self.backlog.stats()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stream::StreamLimits;

    #[tokio::test]
    async fn quiet_streams_keep_no_other_from_reporting() {
        let (tx, mut reports) = mpsc::channel(2);
        let backlogs: Vec<_> =
            (0..8).map(|_| Arc::new(Backlog::new(StreamLimits::default(), Sharing::default()))).collect();
        let mut tasks = JoinSet::new();
        for (slot, backlog) in backlogs.iter().enumerate() {
            tasks.spawn(hand_over(Slot(slot as u16), backlog.clone(), tx.clone()));
        }
        // All of them wait for something to report.
        tokio::task::yield_now().await;
        for (slot, backlog) in backlogs.iter().enumerate().rev() {
            backlog.push(StreamEvent::Connected);
            let report = tokio::time::timeout(Duration::from_secs(5), reports.recv()).await;
            assert_eq!(report, Ok(Some((Slot(slot as u16), StreamEvent::Connected))));
        }
    }
}
