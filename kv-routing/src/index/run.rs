//! Runs and where they are kept.

use super::block_map::BlockAt;
use super::holder::{Covered, Holder, Released};
use crate::block::SequenceHash;
use crate::target::{Slot, Tier};

/// Place of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RunId(pub(super) u32);

/// A run that may be gone meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunRef {
    pub(super) id: RunId,
    generation: u32,
}

/// A piece of a chain without a gap, with everyone who holds some of it. Somebody holds its last block.
#[derive(Debug)]
pub(super) struct Run {
    /// Hash of the first block.
    pub(super) key: SequenceHash,
    /// Hashes of all blocks, the first included.
    pub(super) hashes: Vec<SequenceHash>,
    /// Ascending by slot.
    pub(super) holders: Vec<Holder>,
    /// Hash of the block before the first; `None` at the root of a chain.
    pub(super) parent: Option<SequenceHash>,
    /// The run that held the parent when this one began.
    pub(super) link: Option<RunRef>,
    /// Live runs whose link is this one.
    pub(super) children: u32,
    /// Leading blocks that lie before some child. Falls only when the last child goes.
    pub(super) branched: u16,
    /// Time of the last store into it, on the index's own clock.
    pub(super) stored: u64,
    /// Time under which it stands in the eviction queue; `None` when it does not.
    pub(super) queued: Option<u64>,
    /// Bytes it is accounted for with in its page.
    pub(super) page_bytes: u32,
}

/// What a change of one holder did to its run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Triples of (block, target, tier) that came or went.
    pub(super) blocks: u32,
    /// The holder came or went.
    pub(super) holder: bool,
    /// What the page says of the run changed.
    pub(super) published: bool,
}

impl Run {
    pub(super) fn len(&self) -> u16 {
        self.hashes.len() as u16
    }

    /// Number of leading blocks of `chain` that equal the run's from `offset` on.
    pub(super) fn agreement(&self, offset: u16, chain: &[SequenceHash]) -> u16 {
        let own = self.hashes.iter().skip(usize::from(offset));
        own.zip(chain).take_while(|(own, theirs)| own == theirs).count() as u16
    }

    /// The entry of `slot`.
    pub(super) fn holder(&self, slot: Slot) -> Option<&Holder> {
        self.holders.binary_search_by_key(&slot, |holder| holder.slot).ok().and_then(|at| self.holders.get(at))
    }

    /// Adds one reference to each block of `from..to`.
    pub(super) fn add(&mut self, slot: Slot, tier: Tier, from: u16, to: u16) -> Change {
        let (at, is_new) = match self.holders.binary_search_by_key(&slot, |holder| holder.slot) {
            Ok(at) => (at, false),
            Err(at) => {
                if self.holders.is_empty() {
                    self.holders.reserve_exact(1);
                }
                self.holders.insert(at, Holder::new(slot));
                (at, true)
            }
        };
        let Some(holder) = self.holders.get_mut(at) else { return Change::default() };
        let before = holder.covered();
        let gained = holder.add(tier, from, to);
        Change { blocks: gained.into(), holder: is_new, published: holder.covered() != before }
    }

    /// Gives one reference back; `None` when there was none.
    pub(super) fn release(&mut self, slot: Slot, tier: Tier, offset: u16) -> Option<Change> {
        let mut released = Released::Absent;
        let mut change = self.shrink(slot, |holder| {
            released = holder.release(tier, offset);
            u32::from(released == Released::Gone)
        });
        match released {
            Released::Absent => None,
            Released::StillHeld => Some(Change::default()),
            Released::Gone => {
                change.blocks = 1;
                Some(change)
            }
        }
    }

    /// Drops what `slot` holds on `tier` (`None`: on every tier).
    pub(super) fn clear(&mut self, slot: Slot, tier: Option<Tier>) -> Change {
        self.shrink(slot, |holder| match tier {
            Some(tier) => holder.truncate(tier, 0),
            None => Tier::ALL.into_iter().map(|tier| holder.truncate(tier, 0)).sum(),
        })
    }

    /// Drops what anyone holds from `keep` on. Returns the slots whose entries went, and the change in sum.
    pub(super) fn cut(&mut self, keep: u16) -> (Vec<Slot>, Change) {
        let mut gone = Vec::new();
        let mut sum = Change::default();
        self.holders.retain_mut(|holder| {
            let before = holder.covered();
            sum.blocks += Tier::ALL.into_iter().map(|tier| holder.truncate(tier, keep)).sum::<u32>();
            sum.published |= holder.covered() != before;
            let empty = holder.extent() == 0;
            if empty {
                gone.push(holder.slot);
            }
            !empty
        });
        (gone, sum)
    }

    /// Blocks up to the last one that somebody holds.
    pub(super) fn extent(&self) -> u16 {
        let length = self.len();
        let mut extent = 0;
        for holder in &self.holders {
            extent = extent.max(holder.extent());
            if extent >= length {
                break;
            }
        }
        extent
    }

    /// Blocks a page needs to show: the longest prefix anyone covers.
    pub(super) fn published(&self) -> u16 {
        self.holders.iter().map(|holder| holder.covered().disk).max().unwrap_or_default()
    }

    fn shrink(&mut self, slot: Slot, lose: impl FnOnce(&mut Holder) -> u32) -> Change {
        let Ok(at) = self.holders.binary_search_by_key(&slot, |holder| holder.slot) else {
            return Change::default();
        };
        let Some(holder) = self.holders.get_mut(at) else { return Change::default() };
        let before = holder.covered();
        let blocks = lose(holder);
        let published = holder.covered() != before;
        let empty = holder.extent() == 0;
        if empty {
            self.holders.remove(at);
        }
        Change { blocks, holder: empty, published }
    }
}

/// What one holder of a run publishes.
pub(super) fn coverage(run: &Run) -> impl Iterator<Item = (Covered, Slot)> {
    run.holders.iter().map(|holder| (holder.covered(), holder.slot)).filter(|(covered, _)| covered.disk > 0)
}

/// All runs of an index.
#[derive(Debug, Default)]
pub(super) struct Runs {
    cells: Vec<Cell>,
    free: Vec<RunId>,
}

#[derive(Debug)]
struct Cell {
    generation: u32,
    run: Option<Run>,
}

impl Runs {
    /// Number of live runs.
    pub(super) fn len(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// Bytes of the arena itself.
    pub(super) fn arena_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.free.capacity() * size_of::<RunId>()
    }

    pub(super) fn get(&self, id: RunId) -> Option<&Run> {
        self.cells.get(id.0 as usize).and_then(|cell| cell.run.as_ref())
    }

    pub(super) fn get_mut(&mut self, id: RunId) -> Option<&mut Run> {
        self.cells.get_mut(id.0 as usize).and_then(|cell| cell.run.as_mut())
    }

    /// Hash of the block at a place.
    pub(super) fn hash_at(&self, at: BlockAt) -> Option<SequenceHash> {
        self.get(at.run)?.hashes.get(usize::from(at.offset)).copied()
    }

    /// The run `weak` was made for, if it still lives.
    pub(super) fn upgrade(&self, weak: RunRef) -> Option<&Run> {
        self.cells.get(weak.id.0 as usize).filter(|cell| cell.generation == weak.generation)?.run.as_ref()
    }

    /// The run `weak` was made for, if it still lives.
    pub(super) fn upgrade_mut(&mut self, weak: RunRef) -> Option<&mut Run> {
        self.cells.get_mut(weak.id.0 as usize).filter(|cell| cell.generation == weak.generation)?.run.as_mut()
    }

    /// A reference to a live run that does not keep it.
    pub(super) fn downgrade(&self, id: RunId) -> Option<RunRef> {
        self.cells.get(id.0 as usize).map(|cell| RunRef { id, generation: cell.generation })
    }

    /// Begins an empty run with first block `key`, after the block at `parent_at`.
    pub(super) fn start(
        &mut self,
        key: SequenceHash,
        parent: Option<SequenceHash>,
        parent_at: Option<BlockAt>,
    ) -> Option<RunId> {
        let mut link = None;
        if let Some(at) = parent_at
            && let Some(run) = self.get_mut(at.run)
        {
            run.children += 1;
            run.branched = run.branched.max(at.offset + 1);
            link = self.downgrade(at.run);
        }
        let run = Run {
            key,
            hashes: Vec::new(),
            holders: Vec::new(),
            parent,
            link,
            children: 0,
            branched: 0,
            stored: 0,
            queued: None,
            page_bytes: 0,
        };
        self.insert(run)
    }

    fn insert(&mut self, run: Run) -> Option<RunId> {
        if let Some(id) = self.free.pop() {
            self.cells.get_mut(id.0 as usize)?.run = Some(run);
            return Some(id);
        }
        let id = RunId(u32::try_from(self.cells.len()).ok()?);
        self.cells.push(Cell { generation: 0, run: Some(run) });
        Some(id)
    }

    /// Takes a run out. Its id is used again, references to it end.
    pub(super) fn remove(&mut self, id: RunId) -> Option<Run> {
        let cell = self.cells.get_mut(id.0 as usize)?;
        let run = cell.run.take()?;
        cell.generation = cell.generation.wrapping_add(1);
        self.free.push(id);
        Some(run)
    }

    /// Every live run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RunId, &Run)> {
        (0..).zip(&self.cells).filter_map(|(at, cell)| cell.run.as_ref().map(|run| (RunId(at), run)))
    }
}
