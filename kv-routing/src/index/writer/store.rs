//! Adding references.

use super::PrefixIndex;
use crate::block::SequenceHash;
use crate::index::StoreOutcome;
use crate::index::block_map::BlockAt;
use crate::target::{Slot, Tier};

impl PrefixIndex {
    /// Adds one reference of each of `blocks` for `slot` on `tier`. `blocks` is a contiguous piece of one chain;
    /// `parent` is the hash before its first block (`None`: chain root).
    ///
    /// A parent that nobody holds is no obstacle: the blocks are kept, and count for lookups from the moment that
    /// everything before them is held too.
    pub fn store(
        &mut self,
        slot: Slot,
        tier: Tier,
        parent: Option<SequenceHash>,
        blocks: &[SequenceHash],
    ) -> StoreOutcome {
        let mut outcome = StoreOutcome::default();
        let mut before = parent;
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let known = self.blocks.find(*first, &self.runs);
            let Some(at) = known.or_else(|| self.append(before, rest)) else { break };
            let taken = self.hold(slot, tier, at, rest);
            let Some((done, more)) = rest.split_at_checked(usize::from(taken)) else { break };
            if done.is_empty() {
                break;
            }
            outcome.added += u32::from(taken);
            before = done.last().copied();
            rest = more;
        }
        outcome.evicted_blocks = self.keep_bounds();
        outcome
    }

    /// Puts the leading unknown blocks of `chain`, of which the first is unknown, behind `before`: at the end of that
    /// block's run where it is the last block and there is room, else into a new run. Returns where the first one is.
    /// `None` when it cannot be taken in: there are as many runs as can be numbered, or the block map refuses it.
    fn append(&mut self, before: Option<SequenceHash>, chain: &[SequenceHash]) -> Option<BlockAt> {
        let parent_at = before.and_then(|hash| self.blocks.find(hash, &self.runs));
        let run_blocks = self.run_blocks;
        self.blocks.reserve(chain.len().min(usize::from(run_blocks)), &self.runs);
        let has_room = |at: &BlockAt| {
            let length = self.runs.get(at.run).map_or(0, |run| run.len());
            at.offset + 1 == length && length < run_blocks
        };
        let id = match parent_at {
            Some(at) if has_room(&at) => at.run,
            _ => {
                let key = *chain.first()?;
                let id = self.runs.start(key, before, parent_at)?;
                self.pages.insert(id, key);
                id
            }
        };
        let offset = self.runs.get(id)?.len();
        let room = usize::from(run_blocks.saturating_sub(offset));
        let new = chain.iter().take(room).take_while(|block| self.blocks.find(**block, &self.runs).is_none()).count();
        let run = self.runs.get_mut(id)?;
        if offset == 0 {
            run.hashes.reserve_exact(new);
        }
        for block in chain.iter().take(new) {
            if !self.blocks.insert(*block, BlockAt { run: id, offset: run.len() }) {
                break;
            }
            run.hashes.push(*block);
        }
        if run.len() == 0 {
            self.end_run(id);
            return None;
        }
        (run.len() > offset).then_some(BlockAt { run: id, offset })
    }

    /// Adds references from the known block at `at` on, as far as its run agrees with `chain`. Returns how many.
    fn hold(&mut self, slot: Slot, tier: Tier, at: BlockAt, chain: &[SequenceHash]) -> u16 {
        let weak = self.runs.downgrade(at.run);
        let Some(run) = self.runs.get_mut(at.run) else { return 0 };
        let agreed = run.agreement(at.offset, chain);
        let change = run.add(slot, tier, at.offset, at.offset + agreed);
        self.clock += 1;
        run.stored = self.clock;
        self.pages.update(run, change.published);
        if let Some(weak) = weak {
            self.queue.enter(weak, run);
            if change.holder {
                self.holders += 1;
                self.holdings.gain(slot, weak, &self.runs);
            }
        }
        self.holder_blocks += u64::from(change.blocks);
        agreed
    }
}
