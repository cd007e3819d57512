//! A pool's state, and what each message does to it.

mod checks;
mod show;
mod tell;
mod workers;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, Overlaps};
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, Epoch, PoolId, TokenizerRef};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::endpoints::Endpoints;
use super::engine_checks::EngineChecks;
use super::membership::Membership;
use super::message::{PageBatch, PageOutcome};
use super::pages::PageQueues;
use super::runners::Runners;
use super::snapshot::TokenizerStatus;
use super::sources::Sources;
use super::tokenizer::{Bridged, Ready};
use super::view::View;
use super::warm::{self, WarmFiles};
use crate::clock;
use crate::config::{EventFeed, PoolConfig, WorkerSpec};
use crate::ingest::{Finding, Ingest, IngestConfig, Vocabulary};
use crate::policy::ShadowTally;
use crate::publish::{Catalog, EnvoyIndex, EnvoyStatus, TokenizerParts};
use crate::stream::StreamEvent;
use crate::tokenizer::BridgeTokenizer;

pub(super) use checks::{Checked, CheckedSender};

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
    /// When workers became known.
    known_since: Option<Instant>,
    tokenizer: TokenizerStatus,
    /// Why no chat can be rendered.
    chats_problem: Option<String>,
    tokenizer_parts: Option<Arc<TokenizerParts>>,
    bridged: Option<Bridged>,
    checks: EngineChecks,
    checked: CheckedSender,
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
        (runners, warm, checked): (Runners, WarmFiles, CheckedSender),
    ) -> Self {
        let ingest = Ingest::new(IngestConfig {
            limits: IndexLimits { max_blocks: config.limits.max_blocks },
            max_orphans: config.limits.max_orphans,
            max_pages: config.limits.max_engine_blocks,
            max_pool_pages: usize::try_from(config.limits.max_pool_engine_blocks).unwrap_or(usize::MAX),
            gap_policy: config.worker_defaults.events.gap_policy,
            parity_policy: config.worker_defaults.events.parity_policy,
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
            chats_problem: None,
            tokenizer_parts: None,
            bridged: None,
            checks: EngineChecks::default(),
            checked,
            counters: Counters::default(),
            block_size_reported: false,
        }
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
                | StreamEvent::AnswerLost { .. }
                | StreamEvent::PeerChanged { .. }
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
        self.ask_engine(now);
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
        self.stale |= self.membership.refresh_sources(|slot| ingest.state(slot).map(|(state, _)| state), wall);
    }

    /// Slots of targets with events.
    fn followed(&self) -> impl Iterator<Item = Slot> {
        let targets = self.membership.members().flat_map(|member| &member.targets);
        targets.filter(|target| target.spec.events.is_some()).map(|target| target.slot)
    }

    /// The tokenizer is compiled, or cannot be.
    pub(super) fn on_tokenizer(&mut self, result: Result<Ready, String>, now: Instant) {
        match result {
            Ok(Ready { core, bridge, chats_problem }) => {
                self.chats_problem = chats_problem;
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
