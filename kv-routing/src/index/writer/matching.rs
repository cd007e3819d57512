//! Overlaps straight from the runs, without pages.

use super::PrefixIndex;
use crate::block::SequenceHash;
use crate::index::block_map::BlockAt;
use crate::index::holder::PerTier;
use crate::index::run::coverage;
use crate::index::{Overlap, Overlaps};
use crate::target::Slot;

impl PrefixIndex {
    /// Native lookup, for explanations and the admin API.
    pub fn overlaps(&self, chain: &[SequenceHash]) -> Overlaps {
        let mut found: Vec<(Slot, PerTier<u32>)> = Vec::new();
        let mut depth = 0_u32;
        let mut rest = chain;
        while let Some(BlockAt { run, offset: 0 }) = rest.first().and_then(|hash| self.blocks.find(*hash, &self.runs))
            && let Some(run) = self.runs.get(run)
        {
            let agreed = run.agreement(0, rest);
            let end = depth + u32::from(agreed);
            if depth == 0 {
                found = coverage(run).map(|(_, slot)| (slot, PerTier::default())).collect();
            }
            for (covered, slot) in coverage(run) {
                let Ok(at) = found.binary_search_by_key(&slot, |entry| entry.0) else { continue };
                let Some((_, total)) = found.get_mut(at) else { continue };
                let lengths = [&mut total.device, &mut total.host, &mut total.disk];
                for (length, more) in lengths.into_iter().zip([covered.device, covered.host, covered.disk]) {
                    if *length == depth {
                        *length += u32::from(more.min(agreed));
                    }
                }
            }
            if !found.iter().any(|(_, total)| total.disk == end) {
                break;
            }
            depth = end;
            rest = rest.get(usize::from(agreed)..).unwrap_or_default();
        }
        let overlap = |total: PerTier<u32>| Overlap {
            device: total.device,
            host: total.host.saturating_sub(total.device),
            disk: total.disk.saturating_sub(total.host),
        };
        Overlaps(found.into_iter().map(|(slot, total)| (slot, overlap(total))).collect())
    }
}
