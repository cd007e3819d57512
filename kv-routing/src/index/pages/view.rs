//! Page bytes as a reader sees them: nothing is copied, nothing is trusted.

use super::{
    CHECK_BYTES, ENTRY_BYTES, GROUP_BYTES, HEADER_BYTES, KEY_BYTES, MAGIC, PAGE_VERSION, SLOT_BYTES, check_of,
};
use crate::block::SequenceHash;
use crate::index::holder::{Covered, PerTier};
use crate::target::Slot;
use crate::wire::Epoch;

/// A page whose header is right. Everything after it is checked where it is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct PageView<'a> {
    bytes: &'a [u8],
    keys: &'a [u8],
    entries: &'a [u8],
}

/// One run of a page.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct RunView<'a> {
    checks: &'a [u8],
    groups: &'a [u8],
    group_count: u16,
}

impl<'a> PageView<'a> {
    /// `None` when the bytes are not page `page` of the set of `2^page_bits` pages of `epoch`.
    pub(in crate::index) fn new(bytes: &'a [u8], page: u32, page_bits: u8, epoch: Epoch) -> Option<Self> {
        let (header, tables) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (magic, rest) = header.split_first_chunk::<3>()?;
        if *magic != MAGIC || *rest.first_chunk::<5>()? != [PAGE_VERSION, page_bits, 0, 0, 0] {
            return None;
        }
        let (found_epoch, rest) = rest.get(5..)?.split_first_chunk::<8>()?;
        if Epoch(u64::from_le_bytes(*found_epoch)) != epoch || u32_at(rest, 0)? != page {
            return None;
        }
        let runs = usize::try_from(u32_at(rest, 4)?).ok()?;
        let (keys, rest) = tables.split_at_checked(runs.checked_mul(KEY_BYTES)?)?;
        let entries = rest.get(..runs.checked_mul(ENTRY_BYTES)?)?;
        Some(Self { bytes, keys, entries })
    }

    /// The run beginning with `key`: `Ok(None)` when the page has none.
    ///
    /// # Errors
    /// The entry points outside of the page.
    pub(in crate::index) fn run(&self, key: SequenceHash) -> Result<Option<RunView<'a>>, ()> {
        let (mut low, mut high) = (0, self.keys.len() / KEY_BYTES);
        while low < high {
            let middle = low + (high - low) / 2;
            match u64_at(self.keys, middle * KEY_BYTES).ok_or(())?.cmp(&key.0) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.run_at(middle).map(Some).ok_or(()),
            }
        }
        Ok(None)
    }

    fn run_at(&self, at: usize) -> Option<RunView<'a>> {
        let entry = u64_at(self.entries, at * ENTRY_BYTES)?;
        let body = self.bytes.get(usize::try_from(entry as u32).ok()?..)?;
        let blocks = (entry >> 32) as u16;
        let (checks, groups) = body.split_at_checked(usize::from(blocks.checked_sub(1)?) * CHECK_BYTES)?;
        Some(RunView { checks, groups, group_count: (entry >> 48) as u16 })
    }
}

impl<'a> RunView<'a> {
    /// How many blocks of the run agree with `chain`, whose first block is the run's first. A chain that differs at
    /// one block differs at all later ones, so this is a binary search.
    pub(in crate::index) fn agreement(&self, chain: &[SequenceHash]) -> u16 {
        let longest = chain.len().min(self.checks.len() / CHECK_BYTES + 1);
        let (mut low, mut high) = (1, longest);
        while low < high {
            let middle = low + (high - low) / 2;
            let agrees = match (chain.get(middle), u32_at(self.checks, (middle - 1) * CHECK_BYTES)) {
                (Some(hash), Some(check)) => check_of(*hash) == check,
                _ => false,
            };
            if agrees {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as u16
    }

    /// Every group of holders with equal lengths.
    ///
    /// # Errors
    /// An item is an error, and the last one, when the page ends before the group does.
    pub(in crate::index) fn groups(&self) -> impl Iterator<Item = Result<Group<'a>, ()>> {
        let mut rest = Some(self.groups);
        (0..self.group_count).map_while(move |_| {
            let taken = Group::split_first(rest.take()?);
            rest = taken.as_ref().map(|(_, rest)| *rest);
            Some(taken.map(|(group, _)| group).ok_or(()))
        })
    }
}

/// Holders of a run with equal lengths.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Group<'a> {
    pub(in crate::index) covered: Covered,
    slots: &'a [u8],
}

impl<'a> Group<'a> {
    fn split_first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<GROUP_BYTES>()?;
        let number = |at: usize| u16_at(head, at);
        let (slots, rest) = rest.split_at_checked(usize::from(number(6)?) * SLOT_BYTES)?;
        Some((Self { covered: PerTier { device: number(0)?, host: number(2)?, disk: number(4)? }, slots }, rest))
    }

    /// Who they are.
    pub(in crate::index) fn slots(&self) -> impl Iterator<Item = Slot> {
        let (slots, _) = self.slots.as_chunks::<SLOT_BYTES>();
        slots.iter().map(|slot| Slot(u16::from_le_bytes(*slot)))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|number| u16::from_le_bytes(*number))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|number| u64::from_le_bytes(*number))
}
