//! Result of a lookup.

use crate::target::{Slot, Tier};

/// Leading prompt blocks one target holds. Every tier counts only its extension beyond the cheaper ones, so the
/// blocks that need no prefill are the sum of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Leading blocks in device memory.
    pub device: u32,
    /// Further leading blocks when host memory counts too.
    pub host: u32,
    /// Further leading blocks when disk counts too.
    pub disk: u32,
}

impl Overlap {
    /// Leading blocks held on any tier.
    pub fn total(self) -> u32 {
        self.device.saturating_add(self.host).saturating_add(self.disk)
    }

    /// Blocks of one tier.
    pub fn of(self, tier: Tier) -> u32 {
        match tier {
            Tier::Device => self.device,
            Tier::Host => self.host,
            Tier::Disk => self.disk,
        }
    }
}

/// Overlap of every target that holds at least the first block, in ascending slot order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps(pub Vec<(Slot, Overlap)>);

impl Overlaps {
    /// Overlap of `slot`; zero when it holds nothing.
    pub fn get(&self, slot: Slot) -> Overlap {
        match self.0.binary_search_by_key(&slot, |entry| entry.0) {
            Ok(at) => self.0.get(at).map(|entry| entry.1).unwrap_or_default(),
            Err(_) => Overlap::default(),
        }
    }
}
