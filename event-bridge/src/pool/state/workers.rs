//! Workers come and go, and say of themselves how they are and where they publish.

use kv_routing::wire::Health;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{State, warm_targets};
use crate::clock;
use crate::config::{EventFeed, WorkerAddress};
use crate::discovery::WorkersUpdate;
use crate::ingest::{EngineSays, SourceSpec};
use crate::pool::MemberTarget;
use crate::pool::membership::Changes;
use crate::probe::{MemberId, ProbeReport};

impl State {
    /// Takes a new set of workers; a refused one leaves the old set in force. Before the first good one nothing is known, so nothing is
    /// published: what a predecessor left in Envoy stays.
    pub(in crate::pool) fn on_workers(&mut self, update: WorkersUpdate, now: Instant) {
        match update {
            Err(error) => {
                let kept = self.workers.len();
                warn!(pool = self.config.name, %error, kept, "workers file refused, the workers stay as they are");
                self.workers_error = Some(error.to_string());
                self.counters.refused_workers += 1;
            }
            Ok(workers) => {
                self.known_since.get_or_insert(now);
                self.workers_error = None;
                self.sources.retain(&workers);
                self.workers = workers;
                self.apply_workers(now);
            }
        }
        self.stale = true;
        self.tell(now);
    }

    /// Brings the members in line with configuration and with what engines said of themselves.
    fn apply_workers(&mut self, now: Instant) {
        let workers = self.workers.iter().map(|worker| self.sources.complete(worker)).collect();
        let changes = self.membership.apply(workers, now, clock::unix_millis());
        self.carry_out(changes);
        self.endpoints.invalidate();
        self.endpoints.write(&mut self.membership, now);
    }

    fn carry_out(&mut self, changes: Changes) {
        let Changes { joined, left, started, ended, slotless } = changes;
        for slot in ended {
            self.runners.unfollow(slot);
            self.ingest.remove_target(slot);
        }
        for (slot, rank) in &started {
            let (replay, polled) = match &rank.events {
                None => continue,
                Some(EventFeed::Socket(stream)) => (stream.replay.is_some(), false),
                Some(EventFeed::Polled { .. }) => (false, true),
            };
            self.ingest.add_target(*slot, SourceSpec { replay, polled, rank: rank.rank });
        }
        for (slot, name) in warm_targets(&self.config.name, &self.membership) {
            if started.iter().any(|(new, _)| *new == slot) {
                self.warm.restore(&mut self.ingest, slot, &name);
            }
        }
        self.runners.follow(&started);
        for (member, address) in left {
            info!(pool = self.config.name, worker = %address, "worker leaves");
            self.runners.unprobe(member);
        }
        for (member, worker) in joined {
            info!(pool = self.config.name, worker = %worker.address, "worker joined");
            let known = self.membership.members().find(|known| known.id == member);
            let handoff = known.and_then(|known| known.handoff_probe(&self.config.handoff));
            self.runners.probe(member, &worker, handoff);
        }
        for address in slotless {
            self.counters.slotless += 1;
            error!(pool = self.config.name, worker = %address, "no slot is left for a target: restart the bridge");
        }
    }

    /// Takes a probe's report. Reports about an earlier stay are ignored.
    pub(in crate::pool) fn on_probe(&mut self, mut report: ProbeReport, now: Instant) {
        let Some(old) = self.membership.members().find(|member| member.id == report.member) else { return };
        let (worker, health, restarts, error) = (old.spec.address, old.health, old.restarts, old.events_error.clone());
        let role = old.role();
        let before = old.load_at;
        let news = self.learn_sources(worker, &mut report);
        let (id, has_load) = (report.member, matches!(report.load, Some(Ok(_))));
        let Some(member) = self.membership.report(report, now) else { return };
        let pool = &self.config.name;
        match (health, member.health) {
            (Health::Unknown | Health::Healthy, Health::Unhealthy) => {
                warn!(pool, %worker, error = member.health_error, "worker is unhealthy");
            }
            (Health::Unknown | Health::Unhealthy, Health::Healthy) => {
                info!(pool, %worker, "worker is healthy");
            }
            _ => {}
        }
        let restarted = before.filter(|_| restarts != member.restarts);
        let is_healthy = member.health == Health::Healthy;
        if is_healthy && (restarted.is_some() || health != Health::Healthy) {
            self.checks.is_new(worker, now);
        }
        if restarted.is_some() {
            info!(pool, %worker, "the engine's process was restarted");
        }
        if member.events_error.is_some() && member.events_error != error {
            warn!(pool, %worker, error = member.events_error, "it is not known where the engine publishes its events");
        }
        if role != member.role() {
            info!(pool, %worker, role = member.role().as_str(), "the engine says which phase it serves");
            self.endpoints.invalidate();
            self.endpoints.write(&mut self.membership, now);
        }
        if has_load {
            self.tell_ingest(id, restarted, now);
        }
        if news {
            self.apply_workers(now);
        }
        self.stale = true;
        self.tell(now);
    }

    /// Passes on to ingest what a worker's metrics say of its caches, and that its process is another one than at `restarted`.
    fn tell_ingest(&mut self, id: MemberId, restarted: Option<Instant>, now: Instant) {
        let Some(member) = self.membership.members().find(|member| member.id == id) else { return };
        for MemberTarget { slot, spec, .. } in &member.targets {
            if let Some(before) = restarted {
                for action in self.ingest.process_changed(*slot, before.into_std(), now.into_std()) {
                    self.runners.act(*slot, action);
                }
            }
            let load = member.load.of(spec.rank);
            self.ingest.hear(*slot, EngineSays { capacity_tokens: load.capacity_tokens, asleep: load.asleep });
        }
    }

    /// Takes what an engine says of its event sockets; a rank it should have and has not becomes the report's error.
    /// Returns whether there is something new.
    fn learn_sources(&mut self, worker: WorkerAddress, report: &mut ProbeReport) -> bool {
        let Some(Ok(sources)) = &report.sources else { return false };
        let news = self.sources.learn(worker, sources.clone());
        let configured = self.workers.iter().find(|configured| configured.address == worker);
        if let Some(missing) = configured.and_then(|configured| self.sources.missing(configured)) {
            report.sources = Some(Err(missing));
        }
        news
    }
}
