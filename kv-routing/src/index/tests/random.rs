//! Random worlds: a tree of chains, and what happens to targets in it.

use proptest::prelude::*;

use super::{EPOCH, PageTuning, PrefixIndex, Pushed, Tuning, chain};
use crate::block::SequenceHash;
use crate::index::IndexLimits;
use crate::index::naive::NaiveIndex;
use crate::target::{Slot, Tier};

/// Chains in a tree: each leaves an earlier one somewhere and goes on by itself.
#[derive(Clone, Debug)]
pub(super) struct Tree(pub(super) Vec<Vec<SequenceHash>>);

/// One thing that happens. Positions are taken modulo what there is.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Store {
        slot: u16,
        tier: Tier,
        chain: usize,
        from: usize,
        count: usize,
    },
    Remove {
        slot: u16,
        tier: Tier,
        chain: usize,
        at: usize,
    },
    /// Removes blocks from the end, as engines do.
    RemoveTail {
        slot: u16,
        tier: Tier,
        chain: usize,
        from: usize,
    },
    Clear {
        slot: u16,
        tier: Option<Tier>,
    },
    Push,
}

pub(super) fn tree() -> impl Strategy<Value = Tree> {
    let branch = (any::<prop::sample::Index>(), 0_usize..40, 1_usize..40);
    prop::collection::vec(branch, 1..12).prop_map(|branches| {
        let mut locals: Vec<Vec<u64>> = Vec::new();
        for (at, (parent, keep, more)) in branches.into_iter().enumerate() {
            let mut own = match locals.len() {
                0 => Vec::new(),
                count => locals[parent.index(count)].iter().copied().take(keep).collect(),
            };
            own.extend((0..more as u64).map(|block| (at as u64 + 1) * 1000 + block));
            locals.push(own);
        }
        Tree(locals.into_iter().map(chain).collect())
    })
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![4 => Just(Tier::Device), 2 => Just(Tier::Host), 1 => Just(Tier::Disk)]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let slot = prop_oneof![9 => 0_u16..5, 1 => Just(u16::MAX)];
    let whole = (slot.clone(), tier(), any::<usize>()).prop_map(|(slot, tier, chain)| Step::Store {
        slot,
        tier,
        chain,
        from: 0,
        count: usize::MAX,
    });
    let piece = (slot.clone(), tier(), any::<usize>(), any::<usize>(), 1_usize..20)
        .prop_map(|(slot, tier, chain, from, count)| Step::Store { slot, tier, chain, from, count });
    let remove = (slot.clone(), tier(), any::<usize>(), any::<usize>())
        .prop_map(|(slot, tier, chain, at)| Step::Remove { slot, tier, chain, at });
    let tail = (slot.clone(), tier(), any::<usize>(), any::<usize>())
        .prop_map(|(slot, tier, chain, from)| Step::RemoveTail { slot, tier, chain, from });
    let clear = (slot, prop::option::of(tier())).prop_map(|(slot, tier)| Step::Clear { slot, tier });
    prop_oneof![4 => whole, 8 => piece, 8 => remove, 2 => tail, 1 => clear, 3 => Just(Step::Push)]
}

/// The index under test, its oracle, and a filter that has only what was pushed.
pub(super) struct World {
    pub(super) index: PrefixIndex,
    pub(super) naive: NaiveIndex,
    pub(super) pushed: Pushed,
    /// Lengths of runs and pages are tiny, so that every edge is met.
    pub(super) max_blocks: u64,
}

impl World {
    pub(super) fn new(run_blocks: u16, max_blocks: u64, pages: PageTuning) -> Self {
        let limits = IndexLimits { max_blocks };
        let index = PrefixIndex::tuned(limits, 7, Tuning { run_blocks, pages });
        let max_blocks = max_blocks.max(2 * u64::from(run_blocks));
        Self { index, naive: NaiveIndex::default(), pushed: Pushed::default(), max_blocks }
    }

    pub(super) fn apply(&mut self, tree: &Tree, step: &Step) {
        match *step {
            Step::Store { slot, tier, chain, from, count } => {
                let chain = &tree.0[chain % tree.0.len()];
                let from = from % chain.len();
                let piece: Vec<_> = chain[from..].iter().copied().take(count).collect();
                let parent = from.checked_sub(1).map(|at| chain[at]);
                let outcome = self.index.store(Slot(slot), tier, parent, &piece);
                self.naive.store(Slot(slot), tier, parent, &piece);
                assert_eq!(outcome.added as usize, piece.len());
                if outcome.evicted_blocks > 0 {
                    let index = &self.index;
                    self.naive.retain(|slot, tier, block| index.holds(slot, tier, block));
                }
            }
            Step::Remove { slot, tier, chain, at } => {
                let chain = &tree.0[chain % tree.0.len()];
                self.remove(slot, tier, chain[at % chain.len()]);
            }
            Step::RemoveTail { slot, tier, chain, from } => {
                let chain = &tree.0[chain % tree.0.len()];
                for block in chain[from % chain.len()..].iter().rev() {
                    self.remove(slot, tier, *block);
                }
            }
            Step::Clear { slot, tier } => {
                self.index.clear(Slot(slot), tier);
                self.naive.clear(Slot(slot), tier);
            }
            Step::Push => {
                self.pushed.follow(&mut self.index);
                self.check_pushed();
            }
        }
        assert!(self.index.stats().blocks <= self.max_blocks);
    }

    fn remove(&mut self, slot: u16, tier: Tier, block: SequenceHash) {
        let removed = self.index.remove(Slot(slot), tier, block);
        assert_eq!(removed, self.naive.remove(Slot(slot), tier, block));
    }

    /// What was pushed is what encoding everything anew gives, byte by byte.
    fn check_pushed(&self) {
        let count = 1_u32 << self.index.page_bits();
        assert_eq!(self.pushed.pages.len(), count as usize);
        for page in 0..count {
            assert!(
                self.pushed.pages[&page] == self.index.encode_page(page, EPOCH),
                "page {page} was not reported dirty"
            );
        }
    }

    /// Native lookup, page lookup, oracle and dump agree on everything.
    pub(super) fn check(&mut self, tree: &Tree) {
        self.pushed.follow(&mut self.index);
        self.check_pushed();
        for chain in &tree.0 {
            let expected = self.naive.overlaps(chain);
            assert_eq!(self.index.overlaps(chain), expected);
            let (overlaps, stats) = self.pushed.lookup(chain);
            assert_eq!(overlaps, expected);
            assert_eq!((stats.rejected_pages, stats.truncated), (0, false));
            for block in chain {
                assert_eq!(self.index.knows(*block), self.naive.knows(*block));
            }
        }
        self.check_dump(tree);
    }

    fn check_dump(&self, tree: &Tree) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        self.index.for_each_holder(|slot, tier, block, depth| {
            ours.push((slot, tier, block));
            let at = tree.0.iter().find_map(|chain| chain.iter().position(|of| *of == block));
            assert!(depth.is_none() || depth == at.map(|at| at as u32));
        });
        self.naive.for_each_holder(|slot, tier, block| theirs.push((slot, tier, block)));
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
        assert_eq!(self.index.stats().holder_blocks, ours.len() as u64);
    }

    /// Takes everything away again and requires that nothing stays behind.
    pub(super) fn drain(mut self) {
        let mut left = Vec::new();
        self.naive.for_each_holder(|slot, tier, block| left.push((slot, tier, block)));
        for (slot, tier, block) in left {
            while self.naive.remove(slot, tier, block) {
                assert!(self.index.remove(slot, tier, block));
            }
        }
        let stats = self.index.stats();
        assert_eq!((stats.blocks, stats.runs, stats.holders, stats.holder_blocks, stats.page_bytes), (0, 0, 0, 0, 0));
        self.pushed.follow(&mut self.index);
        self.check_pushed();
        let empty = PrefixIndex::new(IndexLimits { max_blocks: 0 }).encode_page(0, EPOCH).len();
        assert!(self.pushed.pages.values().all(|page| page.len() == empty));
    }
}
