//! What a routing decision names: one endpoint and one data-parallel rank.

use std::fmt;

use bincode::{Decode, Encode};
use xxhash_rust::xxh3::xxh3_64;

/// Stable identity of a target: XXH3-64 of `"ip:port#rank"` (`"ip:port"` without a rank).
///
/// Bookings are keyed by it because slots may be renumbered by a new bridge epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct TargetId(pub u64);

impl TargetId {
    /// The id of `endpoint` (`ip:port`) and `rank`.
    pub fn of(endpoint: &str, rank: Option<u32>) -> Self {
        match rank {
            Some(rank) => Self(xxh3_64(format!("{endpoint}#{rank}").as_bytes())),
            None => Self(xxh3_64(endpoint.as_bytes())),
        }
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Short number of a target within one pool and one bridge epoch; pages name holders by it. Never reused in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Slot(pub u16);

/// Where a block lies on its target, cheapest to use first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub enum Tier {
    /// Accelerator memory.
    Device,
    /// Host memory of the same machine.
    Host,
    /// Local or network storage.
    Disk,
}

impl Tier {
    /// Every tier, in order of cost.
    pub const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Disk];

    /// Position in [`Tier::ALL`]; also its number in the page layout.
    pub fn index(self) -> u8 {
        match self {
            Self::Device => 0,
            Self::Host => 1,
            Self::Disk => 2,
        }
    }
}
