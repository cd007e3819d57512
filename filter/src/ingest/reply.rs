//! What the bridge is told in return.

use kv_routing::wire::{Decision, DecisionBatch, PushReply, UnixMillis, keys};

use crate::counters::Counter;
use crate::host::Host;
use crate::view::{live_rows, row_count};
use crate::vm::Vm;

/// Most decisions in one answer.
const MAX_DECISIONS: usize = 8192;

/// Decisions taken from the queue.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) decisions: Vec<Decision>,
    pub(super) dropped: u64,
}

/// Empties the queue; what is beyond the bound is dropped and counted.
pub(super) fn drain(vm: &Vm, host: &impl Host) -> Drained {
    // Registering finds the queue or makes it, so that VMs which route have one to send to.
    let queue = host.queue(keys::DECISIONS).unwrap_or_else(|| host.register_queue(keys::DECISIONS));
    let mut drained = Drained::default();
    while let Ok(Some(bytes)) = host.dequeue(queue) {
        let Ok(DecisionBatch { dropped, decisions }) = DecisionBatch::decode(&bytes) else {
            vm.counters.count(host, Counter::ViewErrors);
            continue;
        };
        let room = MAX_DECISIONS.saturating_sub(drained.decisions.len());
        let over = decisions.len().saturating_sub(room);
        drained.dropped = drained.dropped.saturating_add(dropped).saturating_add(over as u64);
        vm.counters.add(host, Counter::DecisionsDropped, u32::try_from(over).unwrap_or(u32::MAX));
        drained.decisions.extend(decisions.into_iter().take(room));
    }
    drained
}

/// The answer to a push.
pub(super) fn reply(
    vm: &Vm,
    host: &impl Host,
    need_snapshot: bool,
    decisions: Vec<Decision>,
    decisions_dropped: u64,
    now: UnixMillis,
) -> PushReply {
    let in_place = vm.view.header().map(|header| (header.epoch, header.generation));
    let load_rows = live_rows(host, row_count(host), now).collect();
    PushReply { in_place, need_snapshot, load_rows, decisions, decisions_dropped }
}
