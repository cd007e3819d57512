//! Overlaps of a prompt with every target, from pages alone.

use super::pages::{MAX_PAGE_BITS, PageView, RunView, page_of};
use super::{Overlap, Overlaps};
use crate::block::SequenceHash;
use crate::index::holder::PerTier;
use crate::target::Slot;
use crate::wire::Epoch;

/// Most runs one lookup walks. An honest chain of a million tokens has about 130; clients who send many prompts that
/// branch off one another block by block can make their own chain longer than this, and get a shorter overlap for it.
const MAX_RUNS: u32 = 512;

/// Where pages come from: shared data in the filter, a vector in tests.
pub trait PageSource {
    /// All bytes of page `page`, or `None` when it was never written.
    fn page(&mut self, page: u32) -> Option<Vec<u8>>;
}

/// What a lookup cost and met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupStats {
    /// Pages fetched.
    pub pages: u32,
    /// Pages ignored because of another epoch or version, or because they were malformed.
    pub rejected_pages: u32,
    /// Runs found on the way.
    pub runs: u32,
    /// The walk ended at the bound on runs; overlaps may be longer than told.
    pub truncated: bool,
}

/// Overlap of every target with `chain`, from the set of `2^page_bits` pages of `epoch`.
///
/// Pages are not trusted: one that is missing, foreign or malformed ends the walk with what was found before it.
pub fn lookup(
    chain: &[SequenceHash],
    page_bits: u8,
    epoch: Epoch,
    source: &mut impl PageSource,
) -> (Overlaps, LookupStats) {
    let mut stats = LookupStats::default();
    let mut coverage = Coverage::default();
    if page_bits > MAX_PAGE_BITS {
        return (Overlaps::default(), stats);
    }
    let mut fetched: Option<(u32, Vec<u8>)> = None;
    let mut rest = chain;
    let mut depth = 0_u32;
    while let Some(key) = rest.first() {
        if stats.runs == MAX_RUNS {
            stats.truncated = true;
            break;
        }
        let page = page_of(*key, page_bits);
        let bytes = match fetched.take() {
            Some((number, bytes)) if number == page => bytes,
            _ => {
                stats.pages += 1;
                let Some(bytes) = source.page(page) else { break };
                bytes
            }
        };
        let found = PageView::new(&bytes, page, page_bits, epoch).ok_or(()).and_then(|view| view.run(*key));
        let step = found.and_then(|run| run.map(|run| coverage.extend(&run, depth, rest)).transpose());
        let Ok(step) = step else {
            stats.rejected_pages += 1;
            break;
        };
        let Some(Step { agreed, anyone }) = step else { break };
        stats.runs += 1;
        if !anyone {
            break;
        }
        depth += u32::from(agreed);
        rest = rest.get(usize::from(agreed)..).unwrap_or_default();
        fetched = Some((page, bytes));
    }
    (coverage.into_overlaps(), stats)
}

/// One run of the walk.
struct Step {
    /// Blocks of it that are the prompt's.
    agreed: u16,
    /// Some target holds all of those and everything before them.
    anyone: bool,
}

/// Leading blocks by slot; slots are small and dense. A target that fell short has less than the depth of the walk and
/// is thereby out.
#[derive(Default)]
struct Coverage(Vec<PerTier<u32>>);

impl Coverage {
    fn extend(&mut self, run: &RunView<'_>, depth: u32, rest: &[SequenceHash]) -> Result<Step, ()> {
        let agreed = run.agreement(rest);
        let end = depth + u32::from(agreed);
        let mut anyone = false;
        for group in run.groups() {
            let group = group?;
            let more = PerTier {
                device: u32::from(group.covered.device.min(agreed)),
                host: u32::from(group.covered.host.min(agreed)),
                disk: u32::from(group.covered.disk.min(agreed)),
            };
            for slot in group.slots() {
                let covered = self.of(slot, depth);
                let Some(covered) = covered else { continue };
                for (length, more) in
                    [(&mut covered.device, more.device), (&mut covered.host, more.host), (&mut covered.disk, more.disk)]
                {
                    if *length == depth {
                        *length += more;
                    }
                }
                anyone |= covered.disk == end;
            }
        }
        Ok(Step { agreed, anyone })
    }

    /// The entry of `slot`; at the root one is made.
    fn of(&mut self, slot: Slot, depth: u32) -> Option<&mut PerTier<u32>> {
        let at = usize::from(slot.0);
        if depth == 0 && at >= self.0.len() {
            self.0.resize(at + 1, PerTier::default());
        }
        self.0.get_mut(at)
    }

    /// A malformed page may tell more of a tier than of that tier and others: each length counts as at least the one
    /// before it.
    fn into_overlaps(self) -> Overlaps {
        let overlap = |covered: PerTier<u32>| {
            let host = covered.host.max(covered.device);
            let disk = covered.disk.max(host);
            Overlap { device: covered.device, host: host - covered.device, disk: disk - host }
        };
        let slots = (0..=u16::MAX).map(Slot).zip(self.0.into_iter().map(overlap));
        Overlaps(slots.filter(|(_, overlap)| overlap.total() > 0).collect())
    }
}
