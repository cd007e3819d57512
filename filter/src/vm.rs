//! What one VM, that is one Envoy thread, keeps between requests.

use kv_routing::block::SequenceHash;
use kv_routing::index::Overlaps;
use kv_routing::policy::{Ledger, Peaks, RecentId, RecentPrompts, SplitMix64, predicted};
use kv_routing::target::TargetId;
use kv_routing::wire::{Decision, RecentPrompt, SourceState, UnixMillis};

use crate::counters::Counters;
use crate::feed::Feed;
use crate::flow::Prefills;
use crate::held::Held;
use crate::host::Host;
use crate::names;
use crate::view::{Pool, ROW_PERIOD_MS, Refreshed, RoutesBy, Rows, Tokenizers, View};

/// A heartbeat older than this means that the bridge is gone.
pub const BRIDGE_SILENT_MS: u64 = 3_000;

/// Events of a prompt are in the index so long after its first byte at the latest, where they come in order.
pub const EVENTS_MS: u64 = 1_000;

/// Prompts kept until events tell: those of the last moments, in all and of one target.
const RECENT: (usize, usize) = (256, 256);
/// Prompts kept of targets without events.
const WITHOUT_EVENTS: (usize, usize) = (4096, 2048);

/// State of one VM, shared by all its contexts.
#[derive(Debug)]
pub struct Vm {
    /// Envoy stats.
    pub counters: Counters,
    /// Shared data as last read.
    pub view: View,
    /// Tokenizers in use.
    pub tokenizers: Tokenizers,
    /// Own bookings.
    pub ledger: Ledger,
    /// Own row and those of other VMs.
    pub rows: Rows,
    /// Own peaks of requests, to tell outside load by.
    pub peaks: Peaks,
    /// Prompts on their way to targets.
    pub recent: RecentPrompts,
    /// Prompts that targets without events have answered.
    pub answered: RecentPrompts,
    /// Decisions for the bridge.
    pub feed: Feed,
    /// Random numbers.
    pub rng: SplitMix64,
    /// Requests sent through a policy, for those that take targets in turn.
    pub turn: u32,
    /// A tick is on its way to write the own row.
    hurried: bool,
    /// Requests that wait.
    pub held: Held,
    /// Shared queue of this VM alone.
    pub queue: String,
    /// Prefill calls under way.
    pub prefills: Prefills,
}

impl Vm {
    /// A fresh VM.
    pub fn new(host: &impl Host) -> Self {
        Self {
            counters: Counters::default(),
            view: View::default(),
            tokenizers: Tokenizers::default(),
            ledger: Ledger::default(),
            rows: Rows::new(host.seed()),
            peaks: Peaks::default(),
            recent: RecentPrompts::new(RECENT.0, RECENT.1),
            answered: RecentPrompts::new(WITHOUT_EVENTS.0, WITHOUT_EVENTS.1),
            feed: Feed::default(),
            rng: SplitMix64::new(host.seed()),
            // Threads begin at different targets.
            turn: host.seed() as u32,
            hurried: false,
            held: Held::default(),
            queue: format!("{}{:x}", names::ROOT_QUEUE, host.seed()),
            prefills: Prefills::default(),
        }
    }

    /// Defines counters, once.
    pub fn start(&mut self, host: &impl Host) {
        if !self.counters.defined() {
            self.counters = Counters::define(host);
        }
    }

    /// Catches up with shared data.
    pub fn refresh(&mut self, host: &impl Host, now: UnixMillis) {
        if self.view.refresh(host, &self.counters, now) == Refreshed::Anew {
            self.forget_unused();
            // The bridge learns from the row what this VM routes by.
            self.rows.touch();
        }
    }

    /// Drops what belongs to tokenizers and targets that are gone.
    fn forget_unused(&mut self) {
        let pools = self.view.pools();
        let uses = |id: u64| pools.iter().any(|pool| pool.manifest.tokenizer.is_some_and(|used| used.id == id));
        self.tokenizers.retain(uses);
        let known = |id: TargetId| pools.iter().any(|pool| pool.targets.iter().any(|target| target.id == id));
        self.ledger.retain(known);
        self.peaks.retain(known);
    }

    /// Notes that `target` was given a request: for the load row, and for telling our own load from outside load.
    pub fn note_peak(&mut self, target: TargetId, now: UnixMillis) {
        self.peaks.observe(target, self.ledger.booking(target).requests, now);
        self.rows.touch();
    }

    /// Writes the own load row if it is due, or has a tick do it soon: the next request of this thread may be far, and until then
    /// others would take busy targets for idle ones.
    pub fn flush_row(&mut self, host: &impl Host, now: UnixMillis) {
        let by = RoutesBy {
            generation: self.view.header().map_or(kv_routing::wire::Generation(0), |header| header.generation),
            policy_version: self.view.policy_version(),
        };
        self.rows.flush(host, &self.ledger, &self.peaks, &self.recent, by, now);
        let late = self.rows.is_late();
        if late && !self.hurried && self.held.is_empty() {
            host.set_tick_period(ROW_PERIOD_MS as u32);
        }
        self.hurried = late;
    }

    /// Overlap of `chain` with what was routed lately, by this VM and by others.
    pub fn predicted(&self, pool: &Pool, chain: &[SequenceHash], now: UnixMillis) -> Overlaps {
        let recent = self.recent.iter().chain(self.answered.iter()).chain(self.rows.recent());
        predicted(recent, chain, &pool.targets, now)
    }

    /// Counts the prompt of a decision as held by its target; `None` where there is nothing to count.
    pub fn count_as_held(&mut self, pool: &Pool, decision: &Decision, now: UnixMillis) -> Option<RecentId> {
        let Decision { target, certain_blocks, marks, answered, .. } = decision;
        let (list, ttl) = if *answered && without_events(pool, *target) {
            (&mut self.answered, pool.manifest.predict_without_events_ms)
        } else {
            (&mut self.recent, pool.manifest.predict_ms)
        };
        let until = UnixMillis(now.0.saturating_add(ttl.into()));
        let prompt = RecentPrompt { target: *target, until, blocks: *certain_blocks, marks: marks.clone() };
        (ttl > 0 && !marks.is_empty()).then(|| list.add(prompt, now))
    }

    /// Puts a decision on its way to the bridge.
    pub fn report(&mut self, host: &impl Host, decision: Decision, now: UnixMillis) {
        self.feed.push(decision);
        if self.feed.is_full() {
            self.flush_feed(host, now);
        }
    }

    fn flush_feed(&mut self, host: &impl Host, now: UnixMillis) {
        let alive = self.view.silence(BRIDGE_SILENT_MS, now).is_none();
        self.feed.flush(host, &self.counters, alive);
    }

    /// Periodic work. VMs that never routed a request have none.
    pub fn tick(&mut self, host: &impl Host, now: UnixMillis) {
        if self.rows.own().is_none() {
            return;
        }
        self.refresh(host, now);
        if self.prefills.end_elsewhere(&mut self.ledger, now) {
            self.rows.touch();
        }
        self.rows.verify(host, &self.counters, now);
        self.flush_row(host, now);
        self.flush_feed(host, now);
    }
}

/// Whether nothing but its answers will ever tell what `target` holds.
pub fn without_events(pool: &Pool, target: TargetId) -> bool {
    is_source(pool, target, SourceState::None)
}

/// Whether the source of `target` is in this state.
pub fn is_source(pool: &Pool, target: TargetId, state: SourceState) -> bool {
    pool.targets.iter().any(|entry| entry.id == target && entry.source == state)
}
