//! What runs for a pool's workers: an event stream per target, a probe per worker.

use std::collections::HashMap;

use kv_routing::target::Slot;
use tokio::sync::mpsc;

use crate::config::{EngineKind, EventFeed, EventStream, ProbeConfig, RankSpec, WorkerSpec};
use crate::ingest::Action;
use crate::probe::{self, HandoffProbe, MemberId, ProbeHandle, ProbeReport, Subject};
use crate::stream::{
    self, PollHandle, PollSpec, PollTargets, Sharing, StreamEvent, StreamHandle, StreamLimits, StreamSpec, StreamStats,
    spawn_poll,
};

/// Running streams and probes; dropping it ends them.
#[derive(Debug)]
pub(super) struct Runners {
    streams: HashMap<Slot, StreamHandle>,
    /// What these streams share.
    sharing: Sharing,
    pollers: HashMap<String, Poller>,
    probes: HashMap<MemberId, ProbeHandle>,
    probe_config: ProbeConfig,
    engine: EngineKind,
    events: mpsc::Sender<(Slot, StreamEvent)>,
    reports: mpsc::Sender<ProbeReport>,
}

/// A poller and the targets it feeds.
#[derive(Debug)]
struct Poller {
    targets: PollTargets,
    handle: PollHandle,
}

impl Poller {
    fn tell(&mut self) {
        self.targets.sort_unstable();
        self.handle.set_targets(self.targets.clone());
    }
}

impl Runners {
    pub(super) fn new(
        probe_config: ProbeConfig,
        engine: EngineKind,
        events: mpsc::Sender<(Slot, StreamEvent)>,
        reports: mpsc::Sender<ProbeReport>,
    ) -> Self {
        let (streams, pollers, probes) = (HashMap::new(), HashMap::new(), HashMap::new());
        let sharing = Sharing::default();
        Self { streams, sharing, pollers, probes, probe_config, engine, events, reports }
    }

    /// Follows targets that have events.
    pub(super) fn follow(&mut self, started: &[(Slot, RankSpec)]) {
        let mut polled: HashMap<String, PollTargets> = HashMap::new();
        for (slot, RankSpec { rank, events }) in started {
            match events {
                None => {}
                Some(EventFeed::Socket(stream)) => self.connect(*slot, stream),
                Some(EventFeed::Polled { url }) => polled.entry(url.clone()).or_default().push((*rank, *slot)),
            }
        }
        for (url, targets) in polled {
            self.poll(url, targets);
        }
    }

    fn connect(&mut self, slot: Slot, stream: &EventStream) {
        let EventStream { endpoint, replay, topic, bind } = stream.clone();
        let limits = StreamLimits::default();
        let spec = StreamSpec { endpoint, replay_endpoint: replay, topic, bind, limits };
        self.streams.insert(slot, stream::spawn(slot, spec, &self.sharing, self.events.clone()));
    }

    /// One poller for all targets of an engine, since every answer empties its buffer. One that runs already takes them on.
    fn poll(&mut self, url: String, mut targets: PollTargets) {
        if let Some(poller) = self.pollers.get_mut(&url) {
            poller.targets.append(&mut targets);
            poller.tell();
            return;
        }
        targets.sort_unstable();
        let handle = spawn_poll(targets.clone(), PollSpec::new(url.clone()), self.events.clone());
        self.pollers.insert(url, Poller { targets, handle });
    }

    pub(super) fn unfollow(&mut self, slot: Slot) {
        self.streams.remove(&slot);
        self.pollers.retain(|_, poller| {
            let before = poller.targets.len();
            poller.targets.retain(|(_, polled)| *polled != slot);
            if poller.targets.len() < before {
                poller.tell();
            }
            !poller.targets.is_empty()
        });
    }

    /// Probes a worker from now on, in place of any earlier probe of the same member.
    pub(super) fn probe(&mut self, member: MemberId, worker: &WorkerSpec, handoff: Option<HandoffProbe>) {
        let WorkerSpec { address, ask_sources, .. } = *worker;
        let subject = Subject { member, address, engine: self.engine, ask_sources };
        let handle = probe::spawn(subject, handoff, self.probe_config.clone(), self.reports.clone());
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
        let streamed = self.streams.get(&slot).map(StreamHandle::stats);
        let polled = || {
            let feeds = |poller: &&Poller| poller.targets.iter().any(|(_, polled)| *polled == slot);
            self.pollers.values().find(feeds).map(|poller| poller.handle.stats(slot))
        };
        streamed.or_else(polled).unwrap_or_default()
    }

    /// Ends everything.
    pub(super) fn stop(&mut self) {
        self.streams.clear();
        self.pollers.clear();
        self.probes.clear();
    }
}
