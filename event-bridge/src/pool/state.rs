//! A pool's state, and what each message does to it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, Overlaps};
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, Epoch, Health, PoolId, TokenizerRef};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::endpoints::Endpoints;
use super::membership::{Changes, Membership};
use super::message::{PageBatch, PageOutcome};
use super::pages::PageQueues;
use super::runners::Runners;
use super::snapshot::{Holding, IndexDump, PoolSnapshot, TokenizerStatus};
use super::table;
use super::view::{Facts, Told, View};
use crate::clock;
use crate::config::PoolConfig;
use crate::discovery::WorkersUpdate;
use crate::ingest::{Ingest, IngestConfig, Reason, SourceSpec};
use crate::policy::ShadowTally;
use crate::probe::ProbeReport;
use crate::publish::{Catalog, EnvoyIndex, EnvoyStatus, TokenizerParts};
use crate::stream::StreamEvent;

/// A pool whose streams have not synchronized this long after its workers became known is taken as it is.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// Everything a pool knows.
pub(super) struct State {
    id: PoolId,
    config: PoolConfig,
    catalog: Catalog,
    envoys: Vec<watch::Receiver<EnvoyStatus>>,
    tally: ShadowTally,
    runners: Runners,
    ingest: Ingest,
    pages: PageQueues,
    membership: Membership,
    endpoints: Endpoints,
    view: View,
    /// The view may have changed since it was told.
    stale: bool,
    workers_error: Option<String>,
    /// When workers became known, or were found not to be.
    known_since: Option<Instant>,
    tokenizer: TokenizerStatus,
    tokenizer_parts: Option<Arc<TokenizerParts>>,
    counters: Counters,
    block_size_reported: bool,
}

/// Counts that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Decisions seen.
    pub decisions: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Blocks they expected to be held.
    pub predicted_blocks: u64,
    /// Targets left out because slots ran out.
    pub slotless: u64,
    /// Workers files refused.
    pub refused_workers: u64,
}

impl State {
    pub(super) fn new(
        id: PoolId,
        config: PoolConfig,
        epoch: Epoch,
        catalog: Catalog,
        envoys: Vec<watch::Receiver<EnvoyStatus>>,
        tally: ShadowTally,
        runners: Runners,
    ) -> Self {
        let ingest = Ingest::new(IngestConfig {
            limits: IndexLimits { max_blocks: config.limits.max_blocks },
            expected_block_size: config.block_size,
            // The standard library's way to a random number.
            secret: RandomState::new().hash_one(epoch.0),
            ..IngestConfig::default()
        });
        let pages = PageQueues::new(ingest.index(), envoys.len(), epoch);
        let tokenizer = match config.model_dir {
            Some(_) => TokenizerStatus::Loading,
            None => TokenizerStatus::NotConfigured,
        };
        Self {
            id,
            endpoints: Endpoints::new(&config),
            config,
            catalog,
            envoys,
            tally,
            runners,
            ingest,
            pages,
            membership: Membership::default(),
            view: View::default(),
            stale: true,
            workers_error: None,
            known_since: None,
            tokenizer,
            tokenizer_parts: None,
            counters: Counters::default(),
            block_size_reported: false,
        }
    }

    /// Takes a new set of workers; a refused one leaves the old set in force.
    pub(super) fn on_workers(&mut self, update: WorkersUpdate, now: Instant) {
        self.known_since.get_or_insert(now);
        match update {
            Err(error) => {
                warn!(pool = self.config.name, %error, "workers file refused, the workers stay as they are");
                self.workers_error = Some(error.to_string());
                self.counters.refused_workers += 1;
            }
            Ok(workers) => {
                self.workers_error = None;
                let changes = self.membership.apply(workers, now, clock::unix_millis());
                self.carry_out(changes);
                self.endpoints.invalidate();
                self.endpoints.write(&mut self.membership, now);
            }
        }
        self.stale = true;
        self.tell(now);
    }

    fn carry_out(&mut self, changes: Changes) {
        let Changes { joined, left, started, ended, slotless } = changes;
        for slot in ended {
            self.runners.unfollow(slot);
            self.ingest.remove_target(slot);
        }
        for (slot, rank) in started {
            let Some(events) = &rank.events else { continue };
            self.ingest.add_target(
                slot,
                SourceSpec { replay: events.replay.is_some(), rank: rank.rank, ..SourceSpec::default() },
            );
            self.runners.follow(slot, events);
        }
        for (member, address) in left {
            info!(pool = self.config.name, worker = %address, "worker leaves");
            self.runners.unprobe(member);
        }
        for (member, address) in joined {
            info!(pool = self.config.name, worker = %address, "worker joined");
            self.runners.probe(member, address);
        }
        for address in slotless {
            self.counters.slotless += 1;
            error!(pool = self.config.name, worker = %address, "no slot is left for a target: restart the bridge");
        }
    }

    /// Takes a probe's report.
    pub(super) fn on_probe(&mut self, report: ProbeReport, now: Instant) {
        let old = self.membership.members().find(|member| member.id == report.member);
        let old = old.map(|member| (member.health, member.restarts));
        let Some(member) = self.membership.report(report) else { return };
        let (pool, worker) = (&self.config.name, member.spec.address);
        match (old, member.health) {
            (Some((Health::Unknown | Health::Healthy, _)), Health::Unhealthy) => {
                warn!(pool, %worker, error = member.health_error, "worker is unhealthy");
            }
            (Some((Health::Unknown | Health::Unhealthy, _)), Health::Healthy) => {
                info!(pool, %worker, "worker is healthy");
            }
            _ => {}
        }
        if old.is_some_and(|(_, restarts)| restarts != member.restarts) {
            info!(pool, %worker, "the engine's process was restarted");
        }
        self.stale = true;
        self.tell(now);
    }

    /// Takes events of streams.
    pub(super) fn on_events(&mut self, events: &mut Vec<(Slot, StreamEvent)>, now: Instant) {
        let mut state_may_differ = false;
        for (slot, event) in events.drain(..) {
            match &event {
                StreamEvent::Live { received, .. } => self.pages.note_event(Instant::from_std(*received)),
                StreamEvent::Replayed { .. } => {}
                StreamEvent::Connected
                | StreamEvent::Disconnected { .. }
                | StreamEvent::Undecodable { .. }
                | StreamEvent::ReplayEnd { .. } => state_may_differ = true,
            }
            for action in self.ingest.handle(slot, event, now.into_std()) {
                self.runners.act(slot, action);
            }
        }
        if state_may_differ {
            self.refresh_sources();
        }
        self.tell(now);
    }

    /// What is due by time alone: states of sources, members that have left, retries.
    pub(super) fn on_tick(&mut self, now: Instant) {
        self.refresh_sources();
        let left = self.membership.expire(now, self.config.drain, |version| {
            self.envoys.iter().all(|envoy| envoy.borrow().has_table(self.id, version))
        });
        if left {
            self.endpoints.invalidate();
        }
        self.stale |= self.endpoints.write(&mut self.membership, now);
        self.tell(now);
    }

    /// Lets ingest do what is due.
    pub(super) fn tick_ingest(&mut self, now: Instant) {
        for (slot, action) in self.ingest.tick(now.into_std()) {
            self.runners.act(slot, action);
        }
    }

    fn refresh_sources(&mut self) {
        let (ingest, wall) = (&self.ingest, clock::unix_millis());
        self.stale |= self.membership.refresh_sources(|slot| ingest.report(slot).map(|report| report.state), wall);
    }

    /// Slots of targets with events.
    fn followed(&self) -> impl Iterator<Item = Slot> {
        let targets = self.membership.members().flat_map(|member| &member.targets);
        targets.filter(|target| target.spec.events.is_some()).map(|target| target.slot)
    }

    /// The tokenizer is compiled, or cannot be.
    pub(super) fn on_tokenizer(&mut self, result: Result<TokenizerParts, String>, now: Instant) {
        match result {
            Ok(parts) => {
                let TokenizerRef { id, bytes, .. } = parts.reference;
                info!(pool = self.config.name, id = format!("{id:016x}"), bytes, "tokenizer compiled");
                self.tokenizer = TokenizerStatus::Loaded(parts.reference);
                self.tokenizer_parts = Some(Arc::new(parts));
            }
            Err(error) => {
                error!(
                    pool = self.config.name,
                    error, "tokenizer cannot be used, text prompts are not matched exactly"
                );
                self.tokenizer = TokenizerStatus::Failed(error);
            }
        }
        self.tell(now);
    }

    /// Takes decisions of an Envoy.
    pub(super) fn on_decisions(&mut self, decisions: &[Decision]) {
        let block_tokens = self.ingest.block_size().or(self.config.block_size).map_or(0, |size| size.tokens());
        for decision in decisions {
            self.tally.note(decision, block_tokens);
            self.counters.decisions += 1;
            self.counters.prompt_tokens += u64::from(decision.prompt_tokens);
            self.counters.predicted_blocks += u64::from(decision.predicted_blocks);
        }
    }

    /// Who holds how much of a chain.
    pub(super) fn overlaps(&self, chain: &[SequenceHash]) -> Overlaps {
        self.ingest.index().overlaps(chain)
    }

    /// Pages for an Envoy; `None` for one that is not configured.
    pub(super) fn take_pages(&mut self, envoy: EnvoyIndex, previous: PageOutcome, max: usize) -> Option<PageBatch> {
        self.pages.next_batch(self.ingest.index_mut(), envoy, previous, max)
    }

    /// Follows the workers no longer; what is known stays.
    pub(super) fn stop_following(&mut self) {
        self.runners.stop();
    }

    /// Tells the catalog what has changed, if anything has.
    fn tell(&mut self, now: Instant) {
        if self.known_since.is_none() {
            return;
        }
        let block_size = self.ingest.block_size().or(self.config.block_size);
        let settled = self.view.settled() || self.settled(now);
        let tokens = block_size.map(|size| size.tokens());
        let compiled = self.tokenizer_parts.as_ref().map(|parts| parts.reference);
        if !self.stale
            && (tokens, settled, compiled) == (self.view.block_size(), self.view.settled(), self.view.tokenizer())
        {
            return;
        }
        self.compare_block_sizes();
        let table = table::build(self.membership.members(), block_size);
        let facts = Facts { block_size: tokens, tokenizer: self.tokenizer_parts.clone(), settled };
        match self.view.update((self.id, &self.config), table, facts, now) {
            Ok(Told::Same) => self.stale = false,
            Ok(Told::Later) => self.stale = true,
            Ok(Told::Now(view)) => {
                self.stale = false;
                self.membership.table_published(view.table_version);
                self.catalog.set_pool(self.id, view);
            }
            Err(error) => {
                self.stale = false;
                error!(pool = self.config.name, %error, "target table cannot be encoded");
            }
        }
    }

    fn settled(&self, now: Instant) -> bool {
        let Some(since) = self.known_since else { return false };
        let synchronized = |slot: Slot| {
            self.ingest.report(slot).is_none_or(|report| {
                !matches!(report.reason, Reason::NotConnected | Reason::Synchronizing | Reason::Checking)
            })
        };
        let probed = |member: &super::Member| member.health != Health::Unknown || member.health_error.is_some();
        let in_time = now.duration_since(since) < SETTLE_LIMIT;
        let ready = self.membership.members().all(probed) && self.followed().all(synchronized);
        (ready || !in_time) && self.tokenizer != TokenizerStatus::Loading
    }

    fn compare_block_sizes(&mut self) {
        if let Some((expected, learned)) = self.ingest.block_size_conflict()
            && !std::mem::replace(&mut self.block_size_reported, true)
        {
            let (learned, expected) = (learned.tokens(), expected.tokens());
            warn!(pool = self.config.name, learned, expected, "engines use another block size than configured");
        }
    }

    pub(super) fn snapshot(&self) -> PoolSnapshot {
        let source = |slot| self.ingest.report(slot).map(|report| (slot, (report, self.runners.stats(slot))));
        PoolSnapshot {
            name: self.config.name.clone(),
            members: self.membership.members().cloned().collect(),
            sources: self.followed().filter_map(source).collect(),
            index: self.ingest.index().stats(),
            page_bits: self.ingest.index().page_bits(),
            block_size: self.ingest.block_size(),
            expected_block_size: self.config.block_size,
            table_version: self.view.table_version(),
            settled: self.view.settled(),
            workers_error: self.workers_error.clone(),
            eds_error: self.endpoints.error().cloned(),
            tokenizer: self.tokenizer.clone(),
            counters: self.counters,
        }
    }

    pub(super) fn dump(&self) -> IndexDump {
        let mut holdings = Vec::new();
        self.ingest.index().for_each_holder(|slot, tier, block, depth| {
            holdings.push(Holding { slot, tier, block, depth });
        });
        let targets = self.membership.members().flat_map(|member| {
            let address = member.spec.address;
            member.targets.iter().map(move |target| (target.slot, (address, target.spec.rank)))
        });
        IndexDump { targets: targets.collect(), holdings }
    }
}
