//! What one target holds of one run: exact presence per tier, with reference counts.

use crate::target::{Slot, Tier};

/// Most blocks in a run; the width of [`Bits`].
pub(super) const RUN_BLOCKS: u16 = 512;
const WORDS: usize = RUN_BLOCKS as usize / 64;

/// One value per tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PerTier<T> {
    pub(super) device: T,
    pub(super) host: T,
    pub(super) disk: T,
}

impl<T> PerTier<T> {
    pub(super) fn of(&self, tier: Tier) -> &T {
        match tier {
            Tier::Device => &self.device,
            Tier::Host => &self.host,
            Tier::Disk => &self.disk,
        }
    }

    fn of_mut(&mut self, tier: Tier) -> &mut T {
        match tier {
            Tier::Device => &mut self.device,
            Tier::Host => &mut self.host,
            Tier::Disk => &mut self.disk,
        }
    }
}

/// Leading blocks of a run that a target holds: on device; on device or host; on any tier.
pub(super) type Covered = PerTier<u16>;

/// How a reference was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// There was none.
    Absent,
    /// Others remain.
    StillHeld,
    /// It was the last one.
    Gone,
}

/// One target's part of a run.
///
/// Nearly always a tier holds a prefix of the run, each block once: then three lengths say it all. Anything else (a
/// hole, a block referenced twice) moves the exact state into `irregular` until it is regular again.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) slot: Slot,
    /// Blocks `0..length` are held once each. Means nothing while `irregular` is set.
    length: PerTier<u16>,
    irregular: Option<Box<Irregular>>,
}

#[derive(Debug, Default)]
struct Irregular {
    present: PerTier<Bits>,
    /// References beyond the first, ascending by (tier, offset); never zero.
    extra: Vec<((u8, u16), u32)>,
}

impl Holder {
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot, length: PerTier::default(), irregular: None }
    }

    /// Adds one reference to each block of `from..to`. Returns how many became present.
    pub(super) fn add(&mut self, tier: Tier, from: u16, to: u16) -> u16 {
        let length = self.length.of_mut(tier);
        if self.irregular.is_none() && *length == from {
            *length = to;
            return to - from;
        }
        let irregular = self.make_irregular();
        let mut gained = 0;
        for offset in from..to {
            if irregular.present.of_mut(tier).set(offset) {
                gained += 1;
            } else {
                irregular.add_extra(tier, offset);
            }
        }
        self.make_regular();
        gained
    }

    /// Gives one reference back.
    pub(super) fn release(&mut self, tier: Tier, offset: u16) -> Released {
        if !self.holds(tier, offset) {
            return Released::Absent;
        }
        let length = self.length.of_mut(tier);
        if self.irregular.is_none() && *length == offset + 1 {
            *length = offset;
            return Released::Gone;
        }
        let irregular = self.make_irregular();
        let still_held = irregular.take_extra(tier, offset);
        if !still_held {
            irregular.present.of_mut(tier).clear_from(offset, offset + 1);
        }
        self.make_regular();
        if still_held { Released::StillHeld } else { Released::Gone }
    }

    /// Drops every reference to blocks from `keep` on, on `tier`. Returns how many blocks went.
    pub(super) fn truncate(&mut self, tier: Tier, keep: u16) -> u32 {
        if let Some(irregular) = &mut self.irregular {
            let number = tier.index();
            irregular.extra.retain(|&((of, offset), _)| of != number || offset < keep);
            let gone = irregular.present.of_mut(tier).clear_from(keep, RUN_BLOCKS);
            self.make_regular();
            return gone;
        }
        let length = self.length.of_mut(tier);
        let gone = length.saturating_sub(keep);
        *length -= gone;
        u32::from(gone)
    }

    /// Whether `offset` is present on `tier`.
    pub(super) fn holds(&self, tier: Tier, offset: u16) -> bool {
        match &self.irregular {
            None => offset < *self.length.of(tier),
            Some(irregular) => irregular.present.of(tier).get(offset),
        }
    }

    /// Offset after the last block present on any tier; 0 when nothing is.
    pub(super) fn extent(&self) -> u16 {
        match &self.irregular {
            None => self.length.device.max(self.length.host).max(self.length.disk),
            Some(irregular) => irregular.union_of_all().extent(),
        }
    }

    /// Contiguous prefix per union of tiers: what is published.
    pub(super) fn covered(&self) -> Covered {
        match &self.irregular {
            None => {
                let host = self.length.device.max(self.length.host);
                PerTier { device: self.length.device, host, disk: host.max(self.length.disk) }
            }
            Some(irregular) => {
                let present = &irregular.present;
                let host = present.device.union(&present.host);
                let disk = host.union(&present.disk);
                PerTier { device: present.device.leading(), host: host.leading(), disk: disk.leading() }
            }
        }
    }

    fn make_irregular(&mut self) -> &mut Irregular {
        let length = self.length;
        self.irregular.get_or_insert_with(|| {
            let present = PerTier {
                device: Bits::prefix(length.device),
                host: Bits::prefix(length.host),
                disk: Bits::prefix(length.disk),
            };
            Box::new(Irregular { present, extra: Vec::new() })
        })
    }

    fn make_regular(&mut self) {
        let Some(irregular) = &self.irregular else { return };
        if !irregular.extra.is_empty() {
            return;
        }
        let PerTier { device, host, disk } = &irregular.present;
        if device.is_prefix() && host.is_prefix() && disk.is_prefix() {
            self.length = PerTier { device: device.leading(), host: host.leading(), disk: disk.leading() };
            self.irregular = None;
        }
    }
}

impl Irregular {
    fn add_extra(&mut self, tier: Tier, offset: u16) {
        let key = (tier.index(), offset);
        match self.extra.binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => {
                if let Some((_, count)) = self.extra.get_mut(at) {
                    *count = count.saturating_add(1);
                }
            }
            Err(at) => self.extra.insert(at, (key, 1)),
        }
    }

    /// Takes one extra reference; `false` when there was none.
    fn take_extra(&mut self, tier: Tier, offset: u16) -> bool {
        let Ok(at) = self.extra.binary_search_by_key(&(tier.index(), offset), |entry| entry.0) else {
            return false;
        };
        match self.extra.get_mut(at) {
            Some((_, count)) if *count > 1 => *count -= 1,
            _ => drop(self.extra.remove(at)),
        }
        true
    }

    fn union_of_all(&self) -> Bits {
        self.present.device.union(&self.present.host).union(&self.present.disk)
    }
}

/// One bit per block of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bits([u64; WORDS]);

impl Bits {
    fn prefix(length: u16) -> Self {
        let mut bits = Self::default();
        let mut left = u32::from(length);
        for word in &mut bits.0 {
            *word = low_bits(left.min(64));
            left = left.saturating_sub(64);
        }
        bits
    }

    fn get(&self, offset: u16) -> bool {
        self.0.get(usize::from(offset / 64)).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    /// Sets one bit; `false` when it was set already.
    fn set(&mut self, offset: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(offset / 64)) else { return false };
        let mask = 1 << (offset % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// Clears `from..to`. Returns how many bits were set there.
    fn clear_from(&mut self, from: u16, to: u16) -> u32 {
        let mut cleared = 0;
        for (word, base) in self.0.iter_mut().zip((0_u32..).step_by(64)) {
            let within = |bound: u16| u32::from(bound).saturating_sub(base).min(64);
            let mask = low_bits(within(to)) & !low_bits(within(from));
            cleared += (*word & mask).count_ones();
            *word &= !mask;
        }
        cleared
    }

    fn union(&self, other: &Self) -> Self {
        let mut bits = *self;
        for (word, more) in bits.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        bits
    }

    /// Number of set bits before the first clear one.
    fn leading(&self) -> u16 {
        let mut length = 0;
        for word in self.0 {
            length += word.trailing_ones() as u16;
            if word != u64::MAX {
                break;
            }
        }
        length
    }

    /// Offset after the last set bit.
    fn extent(&self) -> u16 {
        let last = self.0.iter().zip((64_u16..).step_by(64)).filter(|(word, _)| **word != 0).last();
        last.map_or(0, |(word, end)| end - word.leading_zeros() as u16)
    }

    fn is_prefix(&self) -> bool {
        *self == Self::prefix(self.leading())
    }
}

fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
