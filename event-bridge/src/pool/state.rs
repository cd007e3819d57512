//! A pool's state, and what each message does to it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, Overlaps};
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, Epoch, Health, PoolId, TokenizerRef};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::endpoints::Endpoints;
use super::membership::{Changes, Membership};
use super::message::{PageBatch, PageOutcome};
use super::pages::PageQueues;
use super::runners::Runners;
use super::snapshot::{Holding, IndexDump, PoolSnapshot, TokenizerStatus};
use super::sources::Sources;
use super::table;
use super::tokenizer::{Bridged, Ready};
use super::view::{Facts, Told, View};
use super::warm::{self, WarmFiles};
use crate::clock;
use crate::config::{EventFeed, PoolConfig, WorkerAddress, WorkerSpec};
use crate::discovery::WorkersUpdate;
use crate::ingest::{Finding, Ingest, IngestConfig, Reason, SourceSpec, Vocabulary};
use crate::policy::ShadowTally;
use crate::probe::ProbeReport;
use crate::publish::{Catalog, EnvoyIndex, EnvoyStatus, TokenizerParts};
use crate::stream::StreamEvent;
use crate::tokenizer::BridgeTokenizer;

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
    warm: WarmFiles,
    ingest: Ingest,
    pages: PageQueues,
    /// As configured.
    workers: Vec<WorkerSpec>,
    sources: Sources,
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
    bridged: Option<Bridged>,
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
        (runners, warm): (Runners, WarmFiles),
    ) -> Self {
        let ingest = Ingest::new(IngestConfig {
            limits: IndexLimits { max_blocks: config.limits.max_blocks },
            max_orphans: config.limits.max_orphans,
            max_pages: config.limits.max_engine_blocks,
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
            warm,
            ingest,
            pages,
            workers: Vec::new(),
            sources: Sources::default(),
            membership: Membership::default(),
            view: View::default(),
            stale: true,
            workers_error: None,
            known_since: None,
            tokenizer,
            tokenizer_parts: None,
            bridged: None,
            counters: Counters::default(),
            block_size_reported: false,
        }
    }

    /// Takes a new set of workers; a refused one leaves the old set in force. Before the first good one nothing is known, so nothing is
    /// published: what a predecessor left in Envoy stays.
    pub(super) fn on_workers(&mut self, update: WorkersUpdate, now: Instant) {
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
            self.runners.probe(member, &worker);
        }
        for address in slotless {
            self.counters.slotless += 1;
            error!(pool = self.config.name, worker = %address, "no slot is left for a target: restart the bridge");
        }
    }

    /// Takes a probe's report. Reports about an earlier stay are ignored.
    pub(super) fn on_probe(&mut self, mut report: ProbeReport, now: Instant) {
        let Some(old) = self.membership.members().find(|member| member.id == report.member) else { return };
        let (worker, health, restarts, error) = (old.spec.address, old.health, old.restarts, old.events_error.clone());
        let news = self.learn_sources(worker, &mut report);
        let Some(member) = self.membership.report(report) else { return };
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
        if restarts != member.restarts {
            info!(pool, %worker, "the engine's process was restarted");
        }
        if member.events_error.is_some() && member.events_error != error {
            warn!(pool, %worker, error = member.events_error, "it is not known where the engine publishes its events");
        }
        if news {
            self.apply_workers(now);
        }
        self.stale = true;
        self.tell(now);
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
        self.judge_parity(now);
        self.refresh_sources();
        self.tick_warm(now);
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

    /// Saves a target for the next bridge, if one is due.
    fn tick_warm(&mut self, now: Instant) {
        let targets = warm_targets(&self.config.name, &self.membership);
        self.warm.tick(&mut self.ingest, targets, now);
    }

    /// Looks for the prompts that targets answered among what they announced.
    fn judge_parity(&mut self, now: Instant) {
        for slot in self.ingest.judge(now.into_std()) {
            let target = self.membership.members().find_map(|member| {
                let target = member.targets.iter().find(|target| target.slot == slot)?;
                Some((member.spec.address, target.spec.rank))
            });
            let (Some((worker, rank)), pool) = (target, &self.config.name) else { continue };
            match self.ingest.finding(slot) {
                Some(Finding { cause, .. }) => {
                    let (cause, advice) = (cause.as_str(), cause.advice());
                    warn!(pool, %worker, rank, cause, "answered prompts are not announced, no credit for its cache: {advice}");
                }
                None => info!(pool, %worker, rank, "answered prompts are announced"),
            }
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
    pub(super) fn on_tokenizer(&mut self, result: Result<Ready, String>, now: Instant) {
        match result {
            Ok(Ready { core, bridge }) => {
                if let Some(parts) = core {
                    let TokenizerRef { id, bytes, .. } = parts.reference;
                    info!(pool = self.config.name, id = format!("{id:016x}"), bytes, "tokenizer compiled");
                    self.tokenizer = TokenizerStatus::Loaded(parts.reference);
                    self.ingest.set_vocabulary(Vocabulary { added: parts.added.clone() });
                    self.tokenizer_parts = Some(Arc::new(parts));
                }
                if let Some(Bridged { share, why, .. }) = &bridge {
                    warn!(pool = self.config.name, ?share, why, "the bridge tokenizes what the filter cannot");
                    self.tokenizer = TokenizerStatus::Bridge(why.clone());
                }
                self.bridged = bridge;
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

    /// The tokenizer of prompts that the filter's core cannot tokenize.
    pub(super) fn bridge_tokenizer(&self) -> Option<Arc<BridgeTokenizer>> {
        self.bridged.as_ref().map(|bridged| Arc::clone(&bridged.tokenizer))
    }

    /// Takes decisions of an Envoy.
    pub(super) fn on_decisions(&mut self, decisions: &[Decision], now: Instant) {
        let slots = self.membership.slots();
        let block_tokens = self.ingest.block_size().or(self.config.block_size).map_or(0, |size| size.tokens());
        for decision in decisions {
            self.tally.note(decision, block_tokens);
            self.counters.decisions += 1;
            self.counters.prompt_tokens += u64::from(decision.prompt_tokens);
            self.counters.predicted_blocks += u64::from(decision.predicted_blocks);
            if decision.answered
                && let Some(slot) = slots.get(&decision.target)
            {
                self.ingest.answered(*slot, decision, now.into_std());
            }
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

    /// Follows the workers no longer; what is known stays, and is saved for the next bridge.
    pub(super) fn stop_following(&mut self) -> Option<JoinHandle<()>> {
        self.runners.stop();
        let targets = warm_targets(&self.config.name, &self.membership);
        self.warm.save_all(&mut self.ingest, targets)
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
        let bridge = self.bridged.as_ref().map(|bridged| bridged.share).unwrap_or_default();
        if !self.stale
            && (tokens, settled, compiled, bridge)
                == (self.view.block_size(), self.view.settled(), self.view.tokenizer(), self.view.bridge())
        {
            return;
        }
        self.compare_block_sizes();
        let table = table::build(self.membership.members(), block_size);
        let facts = Facts { block_size: tokens, tokenizer: self.tokenizer_parts.clone(), bridge, settled };
        match self.view.update((self.id, &self.config), table, facts, now) {
            Ok(Told::Same) => self.stale = false,
            Ok(Told::Later) => self.stale = true,
            Ok(Told::Now(view)) => {
                self.stale = false;
                self.membership.table_published(view.table_version);
                self.catalog.set_pool(self.id, *view);
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
                !matches!(
                    report.reason,
                    Reason::NotConnected | Reason::Restored | Reason::Synchronizing | Reason::Checking
                )
            })
        };
        let probed = |member: &super::Member| member.health != Health::Unknown || member.health_error.is_some();
        let in_time = now.duration_since(since) < SETTLE_LIMIT;
        let asked = |member: &super::Member| {
            let unknown = member.spec.ask_sources && !self.sources.knows(member.spec.address);
            !unknown || member.events_error.is_some() || member.health_error.is_some()
        };
        let mut members = self.membership.members();
        let ready = members.all(|member| probed(member) && asked(member)) && self.followed().all(synchronized);
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
        let finding = |slot| self.ingest.finding(slot).map(|finding| (slot, finding.clone()));
        PoolSnapshot {
            name: self.config.name.clone(),
            members: self.membership.members().cloned().collect(),
            sources: self.followed().filter_map(source).collect(),
            findings: self.followed().filter_map(finding).collect(),
            index: self.ingest.index().stats(),
            max_blocks: self.config.limits.max_blocks,
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

/// Targets that could be saved, with the names of their states.
fn warm_targets<'a>(pool: &'a str, membership: &'a Membership) -> impl Iterator<Item = (Slot, String)> + 'a {
    let of_member = move |member: &'a super::Member| {
        let address = member.spec.address;
        member.targets.iter().filter_map(move |target| match &target.spec.events {
            Some(EventFeed::Socket(stream)) if stream.replay.is_some() => {
                Some((target.slot, warm::name(pool, address, target.spec.rank, stream)))
            }
            _ => None,
        })
    };
    membership.members().flat_map(of_member)
}
