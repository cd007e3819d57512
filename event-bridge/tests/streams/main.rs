//! Event sockets against publishers we did not write, and against peers that misbehave.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test stops at the first surprise")]

#[allow(dead_code, reason = "shared with the tests of the bridge, which use more of it")]
mod fake;
mod faults;
mod follow;
mod hostile;
mod polled;
mod sockets;

use std::time::Duration;

use event_bridge::stream::{Sharing, StreamEvent, StreamHandle, StreamSpec, spawn};
use kv_routing::target::Slot;
use tokio::sync::mpsc;
use tokio::time::timeout;

const SLOT: Slot = Slot(5);

/// A stream under test and what it reports.
struct Rig {
    stream: StreamHandle,
    events: mpsc::Receiver<(Slot, StreamEvent)>,
}

impl Rig {
    fn new(spec: StreamSpec) -> Self {
        Self::sharing(spec, &Sharing::default())
    }

    fn sharing(spec: StreamSpec, sharing: &Sharing) -> Self {
        let (tx, events) = mpsc::channel(16);
        Self { stream: spawn(SLOT, spec, sharing, tx), events }
    }

    async fn next(&mut self) -> StreamEvent {
        let (slot, event) = timeout(Duration::from_secs(10), self.events.recv()).await.unwrap().unwrap();
        assert_eq!(slot, SLOT);
        event
    }

    async fn connected(&mut self) {
        assert_eq!(self.next().await, StreamEvent::Connected);
    }

    async fn disconnected(&mut self) -> String {
        match self.next().await {
            StreamEvent::Disconnected { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    async fn live(&mut self) -> (u64, Vec<u8>) {
        match self.next().await {
            StreamEvent::Live { seq, payload, .. } => (seq, payload.to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

/// Limits for tests: everything happens soon.
fn spec(endpoint: &str) -> StreamSpec {
    let mut spec = StreamSpec::connect(endpoint);
    spec.limits.reconnect_max = Duration::from_millis(200);
    spec.limits.replay_silence = Duration::from_millis(300);
    spec.limits.connect_timeout = Duration::from_secs(2);
    spec
}
