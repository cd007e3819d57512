//! Slot numbers of targets.

use std::collections::HashMap;
use std::time::Duration;

use kv_routing::target::Slot;
use tokio::time::Instant;

use crate::config::WorkerAddress;

/// A slot rests this long before its own target may have it again: longer than any message about the target's earlier
/// life can be under way.
const REST: Duration = Duration::from_secs(60);

type Key = (WorkerAddress, Option<u32>);

/// Hands out slots. A slot never names two different targets in one epoch, since a page that still names the first may
/// be in an Envoy when the table already names the second.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: u32,
    resting: HashMap<Key, (Slot, Instant)>,
}

impl Slots {
    /// A slot for a target; `None` when 65,536 have been used.
    pub(super) fn take(&mut self, address: WorkerAddress, rank: Option<u32>, now: Instant) -> Option<Slot> {
        if let Some((slot, since)) = self.resting.remove(&(address, rank))
            && now.duration_since(since) >= REST
        {
            return Some(slot);
        }
        let slot = u16::try_from(self.next).ok()?;
        self.next += 1;
        Some(Slot(slot))
    }

    /// The target is gone.
    pub(super) fn release(&mut self, address: WorkerAddress, rank: Option<u32>, slot: Slot, now: Instant) {
        self.resting.insert((address, rank), (slot, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_goes_back_to_its_own_target_only_and_only_after_a_rest() {
        let address = |text| WorkerAddress::parse(text).unwrap();
        let (a, b) = (address("10.0.0.1:80"), address("10.0.0.2:80"));
        let (mut slots, start) = (Slots::default(), Instant::now());
        assert_eq!(slots.take(a, None, start), Some(Slot(0)));
        assert_eq!(slots.take(a, Some(1), start), Some(Slot(1)));
        slots.release(a, None, Slot(0), start);
        assert_eq!(slots.take(b, None, start + REST), Some(Slot(2)));
        assert_eq!(slots.take(a, None, start + REST), Some(Slot(0)));
        slots.release(a, None, Slot(0), start + REST);
        assert_eq!(slots.take(a, None, start + REST), Some(Slot(3)));
    }

    #[test]
    fn slots_run_out() {
        let address = WorkerAddress::parse("10.0.0.1:80").unwrap();
        let (mut slots, now) = (Slots::default(), Instant::now());
        for rank in 0..=u32::from(u16::MAX) {
            assert!(slots.take(address, Some(rank), now).is_some());
        }
        assert_eq!(slots.take(address, None, now), None);
    }
}
