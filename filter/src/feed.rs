//! Decisions on their way to the bridge: collected per VM, sent in batches through a shared queue to the ingest role.
//!
//! Nothing can grow without bound: a VM keeps a bounded number, a batch goes out only while the bridge is alive, and the
//! ingest role empties the queue with every push of the bridge.

use kv_routing::wire::{Decision, DecisionBatch, keys};

use crate::counters::{Counter, Counters};
use crate::host::Host;

/// Decisions a VM keeps between two batches.
const KEPT: usize = 1024;
/// Decisions that are sent at once instead of with the next tick.
const BATCH: usize = 64;

/// Decisions of one VM not yet sent.
#[derive(Debug, Default)]
pub struct Feed {
    batch: DecisionBatch,
    queue: Option<u32>,
}

impl Feed {
    /// Adds a decision; over the bound it is only counted.
    pub fn push(&mut self, decision: Decision) {
        if self.batch.decisions.len() < KEPT {
            self.batch.decisions.push(decision);
        } else {
            self.batch.dropped = self.batch.dropped.saturating_add(1);
        }
    }

    /// Whether there is enough for a batch.
    pub fn is_full(&self) -> bool {
        self.batch.decisions.len() >= BATCH
    }

    /// Sends what there is, or drops it when the bridge is silent or no ingest role has made the queue.
    pub fn flush(&mut self, host: &impl Host, counters: &Counters, bridge_alive: bool) {
        if self.batch == DecisionBatch::default() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let count = u32::try_from(batch.decisions.len()).unwrap_or(u32::MAX);
        counters.add(host, Counter::DecisionsDropped, u32::try_from(batch.dropped).unwrap_or(u32::MAX));
        let sent = bridge_alive && self.send(host, &batch);
        if !sent {
            counters.add(host, Counter::DecisionsDropped, count);
        }
    }

    fn send(&mut self, host: &impl Host, batch: &DecisionBatch) -> bool {
        if self.queue.is_none() {
            self.queue = host.queue(keys::DECISIONS);
        }
        match (self.queue, batch.encode()) {
            (Some(queue), Ok(bytes)) => host.enqueue(queue, &bytes).is_ok(),
            _ => false,
        }
    }
}
