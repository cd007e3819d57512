//! What runs for a pool's workers: an event stream per target, a probe per worker.

use std::collections::HashMap;

use kv_routing::target::Slot;
use tokio::sync::mpsc;

use crate::config::{EngineKind, EventStream, ProbeConfig, WorkerAddress};
use crate::ingest::Action;
use crate::probe::{self, MemberId, ProbeHandle, ProbeReport};
use crate::stream::{self, StreamEvent, StreamHandle, StreamLimits, StreamSpec, StreamStats};

/// Running streams and probes; dropping it ends them.
#[derive(Debug)]
pub(super) struct Runners {
    streams: HashMap<Slot, StreamHandle>,
    probes: HashMap<MemberId, ProbeHandle>,
    probe_config: ProbeConfig,
    engine: EngineKind,
    events: mpsc::Sender<(Slot, StreamEvent)>,
    reports: mpsc::Sender<ProbeReport>,
}

impl Runners {
    pub(super) fn new(
        probe_config: ProbeConfig,
        engine: EngineKind,
        events: mpsc::Sender<(Slot, StreamEvent)>,
        reports: mpsc::Sender<ProbeReport>,
    ) -> Self {
        Self { streams: HashMap::new(), probes: HashMap::new(), probe_config, engine, events, reports }
    }

    pub(super) fn follow(&mut self, slot: Slot, events: &EventStream) {
        let EventStream { endpoint, replay, topic, bind } = events.clone();
        let limits = StreamLimits::default();
        let spec = StreamSpec { endpoint, replay_endpoint: replay, topic, bind, limits };
        self.streams.insert(slot, stream::spawn(slot, spec, self.events.clone()));
    }

    pub(super) fn unfollow(&mut self, slot: Slot) {
        self.streams.remove(&slot);
    }

    pub(super) fn probe(&mut self, member: MemberId, address: WorkerAddress) {
        let handle = probe::spawn(member, address, self.probe_config.clone(), self.engine, self.reports.clone());
        self.probes.insert(member, handle);
    }

    pub(super) fn unprobe(&mut self, member: MemberId) {
        self.probes.remove(&member);
    }

    pub(super) fn act(&self, slot: Slot, action: Action) {
        let Some(stream) = self.streams.get(&slot) else { return };
        match action {
            Action::Replay { id, from } => stream.replay(id, from),
        }
    }

    pub(super) fn stats(&self, slot: Slot) -> StreamStats {
        self.streams.get(&slot).map(StreamHandle::stats).unwrap_or_default()
    }

    /// Ends everything.
    pub(super) fn stop(&mut self) {
        self.streams.clear();
        self.probes.clear();
    }
}
