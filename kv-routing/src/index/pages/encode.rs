//! Runs to page bytes.

use std::cmp::Reverse;

use super::{CHECK_BYTES, ENTRY_BYTES, HEADER_BYTES, KEY_BYTES, MAGIC, PAGE_VERSION, check_of};
use crate::index::holder::{Covered, PerTier};
use crate::index::run::{Run, coverage};
use crate::target::Slot;
use crate::wire::Epoch;

/// Encodes the page holding `runs`. The bytes depend on nothing but the arguments and what is published of the runs;
/// the order of `runs` does not matter.
pub(in crate::index) fn encode<'a>(
    page: u32,
    page_bits: u8,
    epoch: Epoch,
    runs: impl Iterator<Item = &'a Run>,
) -> Vec<u8> {
    let mut runs: Vec<(&Run, u16)> = runs.map(|run| (run, run.published())).filter(|(_, blocks)| *blocks > 0).collect();
    runs.sort_unstable_by_key(|(run, _)| run.key);

    let tables = HEADER_BYTES + runs.len() * (KEY_BYTES + ENTRY_BYTES);
    let checks: usize = runs.iter().map(|(_, blocks)| usize::from(*blocks) * CHECK_BYTES).sum();
    let mut bytes = Vec::with_capacity(tables + checks * 5 / 4);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[PAGE_VERSION, page_bits, 0, 0, 0]);
    bytes.extend_from_slice(&epoch.0.to_le_bytes());
    bytes.extend_from_slice(&page.to_le_bytes());
    bytes.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    for (run, _) in &runs {
        bytes.extend_from_slice(&run.key.0.to_le_bytes());
    }
    let entries = bytes.len();
    bytes.resize(tables, 0);

    let mut holders = Vec::new();
    for (at, (run, blocks)) in runs.into_iter().enumerate() {
        let body = bytes.len() as u32;
        for hash in run.hashes.iter().take(usize::from(blocks)).skip(1) {
            bytes.extend_from_slice(&check_of(*hash).to_le_bytes());
        }
        let groups = push_groups(&mut bytes, run, &mut holders);
        if let Some(entry) = bytes.get_mut(entries + at * ENTRY_BYTES..).and_then(<[u8]>::first_chunk_mut::<8>) {
            *entry = (u64::from(body) | u64::from(blocks) << 32 | u64::from(groups) << 48).to_le_bytes();
        }
    }
    bytes
}

/// Appends the run's holders, those with equal lengths together, longest first. Returns the number of groups.
fn push_groups(bytes: &mut Vec<u8>, run: &Run, holders: &mut Vec<(Covered, Slot)>) -> u16 {
    holders.clear();
    holders.extend(coverage(run));
    holders.sort_by_key(|(covered, slot)| (Reverse(*covered), *slot));
    let same = holders.chunk_by(|left, right| left.0 == right.0);
    let mut groups = 0_u16;
    // A group's count has 16 bits, and so has the number of groups; only a pool of all 65536 slots gets near either.
    for group in same.flat_map(|group| group.chunks(usize::from(u16::MAX))).take(usize::from(u16::MAX)) {
        let Some((PerTier { device, host, disk }, _)) = group.first() else { continue };
        for number in [*device, *host, *disk, group.len() as u16] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (_, slot) in group {
            bytes.extend_from_slice(&slot.0.to_le_bytes());
        }
        groups += 1;
    }
    groups
}
