//! A call of a hand-over that is under way, and how many there may be.

use kv_routing::policy::BookingId;
use kv_routing::policy::document::Disaggregation;
use kv_routing::wire::UnixMillis;

use crate::vm::Vm;

/// Calls of one VM that wait for their answer. The body of each is held three times: by Envoy as it came and as it was sent, and here.
#[derive(Debug, Default)]
pub struct Prefills {
    calls: u32,
    bytes: u64,
    /// When the log last named a worker that is not set up for them.
    pub(super) blamed_at: Option<UnixMillis>,
}

impl Prefills {
    /// Whether there is room for another one of `bytes` bytes.
    pub(super) fn have_room(&self, rules: &Disaggregation, bytes: u64) -> bool {
        self.calls < rules.max_waits && self.bytes.saturating_add(bytes) <= u64::from(rules.max_wait_bytes)
    }

    /// Calls under way.
    pub fn calls(&self) -> u32 {
        self.calls
    }
}

/// A prefill on its target, or what frees its blocks. [`Call::end`] must be called.
#[derive(Debug)]
pub(in crate::flow) struct Call {
    booking: BookingId,
    bytes: u64,
    /// When it began, in nanoseconds.
    pub(super) began: u64,
}

impl Call {
    /// What is booked already.
    pub(super) fn begin(vm: &mut Vm, booking: BookingId, bytes: u64, began: u64) -> Self {
        vm.prefills.calls += 1;
        vm.prefills.bytes += bytes;
        Self { booking, bytes, began }
    }

    /// It is over.
    pub(in crate::flow) fn end(self, vm: &mut Vm, failed: bool) {
        vm.prefills.calls = vm.prefills.calls.saturating_sub(1);
        vm.prefills.bytes = vm.prefills.bytes.saturating_sub(self.bytes);
        vm.ledger.end(self.booking, failed);
        vm.rows.touch();
    }
}
