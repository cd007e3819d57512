//! What one VM, that is one Envoy thread, keeps between requests.

use kv_routing::policy::{Ledger, Peaks, SplitMix64};
use kv_routing::target::TargetId;
use kv_routing::wire::UnixMillis;

use crate::counters::Counters;
use crate::feed::Feed;
use crate::held::Held;
use crate::host::Host;
use crate::view::{Refreshed, RoutesBy, Rows, Tokenizers, View};

/// A heartbeat older than this means that the bridge is gone.
pub const BRIDGE_SILENT_MS: u64 = 3_000;

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
    /// Decisions for the bridge.
    pub feed: Feed,
    /// Random numbers.
    pub rng: SplitMix64,
    /// Requests sent through a policy, for those that take targets in turn.
    pub turn: u32,
    /// Requests held because their prompt is done in slices.
    pub held: Held,
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
            feed: Feed::default(),
            rng: SplitMix64::new(host.seed()),
            // Threads begin at different targets.
            turn: host.seed() as u32,
            held: Held::default(),
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

    /// Writes the own load row if it is due.
    pub fn flush_row(&mut self, host: &impl Host, now: UnixMillis) {
        let by = RoutesBy {
            generation: self.view.header().map_or(kv_routing::wire::Generation(0), |header| header.generation),
            policy_version: self.view.policy_version(),
        };
        self.rows.flush(host, &self.ledger, &self.peaks, by, now);
    }

    /// Periodic work. VMs that never routed a request have none.
    pub fn tick(&mut self, host: &impl Host, now: UnixMillis) {
        if self.rows.own().is_none() {
            return;
        }
        self.refresh(host, now);
        self.rows.verify(host, &self.counters, now);
        self.flush_row(host, now);
        let alive = self.view.silence(BRIDGE_SILENT_MS, now).is_none();
        self.feed.flush(host, &self.counters, alive);
    }
}
