//! Load of every target: bookings of all VMs of this Envoy, and what the engine reports beyond them.

use std::collections::HashMap;

use super::Checkpoints;
use super::{Ledger, OutsideLoad, Peaks};
use crate::target::TargetId;
use crate::wire::{Booking, LoadRow, TargetEntry, UnixMillis};

/// Load of one target as the cost formula takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetLoad {
    /// Active requests.
    pub requests: f64,
    /// Prompt tokens of requests without a first byte yet.
    pub prefill_tokens: u64,
    /// Blocks in use by active requests.
    pub decode_blocks: f64,
    /// Blocks of the prompt being routed that active requests on the target use already.
    pub shared_blocks: u32,
}

/// Bookings of other VMs, summed by target.
#[derive(Clone, Debug, Default)]
pub struct Bookings(HashMap<TargetId, Booking>);

impl Bookings {
    /// Adds everything in `row`.
    pub fn add(&mut self, row: &LoadRow) {
        for entry in &row.entries {
            let sum = self.0.entry(entry.target).or_default();
            let Booking { requests, prefill_tokens, decode_blocks, failures, peak_requests } = entry.booking;
            sum.requests = sum.requests.saturating_add(requests);
            sum.prefill_tokens = sum.prefill_tokens.saturating_add(prefill_tokens);
            sum.decode_blocks = sum.decode_blocks.saturating_add(decode_blocks);
            sum.failures = sum.failures.saturating_add(failures);
            sum.peak_requests = sum.peak_requests.saturating_add(peak_requests);
        }
    }

    /// Sum for `target`.
    pub fn get(&self, target: TargetId) -> Booking {
        self.0.get(&target).copied().unwrap_or_default()
    }

    /// Drops everything, keeping memory for the next sums.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl TargetLoad {
    /// Load of each of `targets` where everything under way is in `own`, so that engines' reports add nothing.
    pub fn of_own(targets: &[TargetEntry], own: &Ledger, checkpoints: &Checkpoints) -> Vec<Self> {
        let load = |target: &TargetEntry| {
            let Booking { requests, prefill_tokens, decode_blocks, .. } = own.booking(target.id);
            Self {
                requests: f64::from(requests),
                prefill_tokens,
                decode_blocks: decode_blocks as f64,
                shared_blocks: own.shared_blocks(target.id, checkpoints),
            }
        };
        targets.iter().map(load).collect()
    }

    /// Load of each of `targets`, in their order, for a prompt with `checkpoints`.
    pub fn of_all(
        targets: &[TargetEntry],
        own: &Ledger,
        others: &Bookings,
        peaks: &mut Peaks,
        checkpoints: &Checkpoints,
        now: UnixMillis,
    ) -> Vec<Self> {
        let load = |target: &TargetEntry| {
            let mine = own.booking(target.id);
            let theirs = others.get(target.id);
            let booked = mine.requests.saturating_add(theirs.requests);
            // The sum of all VMs' peaks is at least the peak of their sum, so no request of ours is taken for one from outside.
            let peak = peaks.observe(target.id, mine.requests, now).saturating_add(theirs.peak_requests);
            let outside = OutsideLoad::of(target, peak);
            Self {
                requests: f64::from(booked) + f64::from(outside.requests),
                prefill_tokens: mine.prefill_tokens.saturating_add(theirs.prefill_tokens),
                decode_blocks: mine.decode_blocks.saturating_add(theirs.decode_blocks) as f64 + outside.blocks,
                shared_blocks: own.shared_blocks(target.id, checkpoints),
            }
        };
        targets.iter().map(load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::eligible::tests::target;
    use crate::policy::{BookingRequest, PEAK_WINDOW_MS};
    use crate::wire::{Generation, LoadRowEntry};

    fn row(target: TargetId, requests: u32) -> LoadRow {
        let booking = Booking { requests, prefill_tokens: 100, decode_blocks: 7, failures: 0, peak_requests: requests };
        LoadRow {
            owner: 1,
            written: UnixMillis(0),
            generation: Generation(1),
            policy_version: 0,
            entries: vec![LoadRowEntry { target, booking }],
            recent: Vec::new(),
        }
    }

    #[test]
    fn all_vms_and_outside_load_add_up_without_counting_a_request_twice() {
        let mut busy = target(1);
        (busy.running, busy.waiting, busy.kv_usage, busy.capacity_blocks) = (6, 2, 0.5, 1200);
        let idle = target(2);
        let mut own = Ledger::default();
        let checkpoints = Checkpoints::default();
        own.book(BookingRequest { target: busy.id, blocks: 10, prefill_tokens: 50, checkpoints: checkpoints.clone() });
        let mut others = Bookings::default();
        others.add(&row(busy.id, 2));
        others.add(&row(busy.id, 1));
        let targets = [busy.clone(), idle];
        let mut peaks = Peaks::default();
        let loads = TargetLoad::of_all(&targets, &own, &others, &mut peaks, &checkpoints, UnixMillis(5));
        // The engine has 8 requests, 4 of them ours: 4 from outside, each using 0.5 * 1200 / 6 blocks.
        assert_eq!(loads[0].requests, 8.0);
        assert_eq!(loads[0].prefill_tokens, 250);
        assert_eq!(loads[0].decode_blocks, 24.0 + 400.0);
        assert_eq!(loads[1], TargetLoad::default());

        // All of ours end, and the report has not noticed yet: they are not mistaken for outside load...
        let ended = Ledger::default();
        others.clear();
        let mut over = row(busy.id, 0);
        over.entries[0].booking = Booking { peak_requests: 3, ..Booking::default() };
        others.add(&over);
        let loads = TargetLoad::of_all(&targets, &ended, &others, &mut peaks, &checkpoints, UnixMillis(10));
        assert_eq!(loads[0].requests, 4.0);
        // ...until the report is too old to contain them.
        let later = UnixMillis(20 + 2 * PEAK_WINDOW_MS);
        others.clear();
        let loads = TargetLoad::of_all(&targets, &ended, &others, &mut peaks, &checkpoints, later);
        assert_eq!(loads[0].requests, 8.0);
    }
}
