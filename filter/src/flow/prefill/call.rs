//! A call of a hand-over that is under way, how many there may be, and what they tell of their targets.

use std::borrow::Cow;

use kv_routing::policy::document::Disaggregation;
use kv_routing::policy::{BookingId, Ledger};
use kv_routing::target::TargetId;
use kv_routing::wire::{Health, Role, TargetEntry, UnixMillis};

use crate::flow::millis;
use crate::vm::Vm;

/// Milliseconds for which a prefill target that failed is passed over while there is another one. The bridge looks at it meanwhile.
const FAILED_MS: u64 = 1_000;

/// Milliseconds after the timeout of a call by which Envoy has answered it, if it still knows it.
const ANSWERED_BY_MS: u64 = 10_000;

/// Bytes of decode bodies kept by one VM for the case that their client leaves.
const KEPT_BYTES: u64 = 16 << 20;

/// Calls of one VM that wait for their answer. The body of each is held three times: by Envoy as it came and as it was sent, and here.
#[derive(Debug, Default)]
pub struct Prefills {
    calls: u32,
    bytes: u64,
    /// Bytes of decode bodies kept.
    kept: u64,
    /// Prefill targets that failed, and when.
    failed: Vec<(TargetId, UnixMillis)>,
    /// Prefills by sidecars, and when they are over at the latest.
    elsewhere: Vec<(BookingId, UnixMillis)>,
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

    /// Bytes of decode bodies kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether a decode body of `bytes` bytes may be kept; if so, it counts as kept.
    pub(super) fn keep(&mut self, bytes: u64) -> bool {
        let kept = self.kept.saturating_add(bytes);
        let fits = kept <= KEPT_BYTES;
        if fits {
            self.kept = kept;
        }
        fits
    }

    /// A decode body is not kept any longer.
    pub(super) fn drop_kept(&mut self, bytes: u64) {
        self.kept = self.kept.saturating_sub(bytes);
    }

    /// A prefill call to `target` failed.
    pub(super) fn note_failure(&mut self, target: TargetId, now: UnixMillis) {
        self.failed.retain(|(failed, at)| *failed != target && at.age(now) < FAILED_MS);
        self.failed.push((target, now));
    }

    /// `targets` with prefill targets that failed a moment ago unfit to be chosen, unless no other one is left.
    pub(in crate::flow) fn without_failed<'a>(
        &self,
        targets: &'a [TargetEntry],
        now: UnixMillis,
    ) -> Cow<'a, [TargetEntry]> {
        let failed = |target: &TargetEntry| {
            self.failed.iter().any(|(failed, at)| *failed == target.id && at.age(now) < FAILED_MS)
        };
        let is_prefill = |target: &&TargetEntry| target.role == Role::Prefill && target.health != Health::Unhealthy;
        let mut alive = targets.iter().filter(is_prefill);
        if self.failed.is_empty() || alive.all(failed) {
            return Cow::Borrowed(targets);
        }
        let mut targets = targets.to_vec();
        for target in &mut targets {
            if target.role == Role::Prefill && failed(target) {
                target.health = Health::Unhealthy;
            }
        }
        Cow::Owned(targets)
    }

    /// Prefills by sidecars are booked no longer when their time is over at `now`; returns whether there were any.
    pub(crate) fn end_elsewhere(&mut self, ledger: &mut Ledger, now: UnixMillis) -> bool {
        let before = self.elsewhere.len();
        self.elsewhere.retain(|(booking, until)| {
            let goes_on = until.0 > now.0;
            if !goes_on {
                ledger.end(*booking, false);
            }
            goes_on
        });
        self.elsewhere.len() < before
    }
}

/// A prefill on its target, or what frees its blocks. [`Call::end`] must be called.
#[derive(Debug)]
pub(in crate::flow) struct Call {
    booking: BookingId,
    /// `None`: a sidecar makes it, and nothing is held for it here.
    bytes: Option<u64>,
    /// When it began, in nanoseconds.
    pub(super) began: u64,
}

impl Call {
    /// What is booked already.
    pub(super) fn begin(vm: &mut Vm, booking: BookingId, bytes: u64, began: u64) -> Self {
        vm.prefills.calls += 1;
        vm.prefills.bytes += bytes;
        Self { booking, bytes: Some(bytes), began }
    }

    /// The same, made by a sidecar: when its answer is complete is seen, not when its prefill is. It is booked until `until`, at most.
    pub(super) fn elsewhere(vm: &mut Vm, booking: BookingId, began: u64, until: UnixMillis) -> Self {
        vm.prefills.elsewhere.push((booking, until));
        Self { booking, bytes: None, began }
    }

    /// Whether the filter made it.
    pub(in crate::flow) fn is_own(&self) -> bool {
        self.bytes.is_some()
    }

    /// Whether no answer comes any more, with a timeout of `limit_ms`.
    pub(super) fn is_overdue(&self, limit_ms: u32, now: UnixMillis) -> bool {
        millis(self.began).age(now) > u64::from(limit_ms) + ANSWERED_BY_MS
    }

    /// It is over.
    pub(in crate::flow) fn end(self, vm: &mut Vm, failed: bool) {
        match self.bytes {
            Some(bytes) => {
                vm.prefills.calls = vm.prefills.calls.saturating_sub(1);
                vm.prefills.bytes = vm.prefills.bytes.saturating_sub(bytes);
            }
            None => vm.prefills.elsewhere.retain(|(booking, _)| *booking != self.booking),
        }
        vm.ledger.end(self.booking, failed);
        vm.rows.touch();
    }
}
