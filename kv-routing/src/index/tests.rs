//! Everything the index does, against the naive oracle, natively and through its pages.

mod pages;
mod property;
mod random;

use std::collections::BTreeMap;

use super::holder::RUN_BLOCKS;
use super::pages::PageTuning;
use super::writer::Tuning;
use super::{IndexLimits, LookupStats, Overlap, Overlaps, PageSource, PrefixIndex, lookup};
use crate::block::{LocalHash, SequenceHash, extend};
use crate::target::{Slot, Tier};
use crate::wire::Epoch;

const EPOCH: Epoch = Epoch(0x0123_4567_89ab_cdef);

/// Pages as a filter has them: only what was pushed.
#[derive(Clone, Default)]
struct Pushed {
    bits: u8,
    pages: BTreeMap<u32, Vec<u8>>,
}

impl PageSource for Pushed {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        self.pages.get(&page).cloned()
    }
}

impl Pushed {
    /// Pushes what the index says has changed, into the page set of the time.
    fn follow(&mut self, index: &mut PrefixIndex) {
        if self.bits != index.page_bits() {
            *self = Self { bits: index.page_bits(), ..Self::default() };
        }
        for page in index.take_dirty() {
            self.pages.insert(page, index.encode_page(page, EPOCH));
        }
    }

    fn lookup(&mut self, chain: &[SequenceHash]) -> (Overlaps, LookupStats) {
        lookup(chain, self.bits, EPOCH, self)
    }
}

fn chain(locals: impl IntoIterator<Item = u64>) -> Vec<SequenceHash> {
    let mut last = None;
    let link = |local| {
        // Scrambled, so that blocks are as random as real ones.
        last = Some(extend(Some(last.unwrap_or(SequenceHash(0))), LocalHash(local)));
        last
    };
    locals.into_iter().filter_map(link).collect()
}

fn index() -> PrefixIndex {
    PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 })
}

fn device(blocks: u32) -> Overlap {
    Overlap { device: blocks, ..Overlap::default() }
}

const A: Slot = Slot(3);
const B: Slot = Slot(9);

#[test]
fn branches_share_their_prefix_and_a_full_run_is_continued_by_another() {
    let mut index = index();
    let long = chain(0..1200);
    let other = chain((0..100).chain(5000..5050));
    index.store(A, Tier::Device, None, &long);
    index.store(B, Tier::Device, None, &other);
    assert_eq!(index.stats().runs, 4, "three for the long chain, one for the branch");
    assert_eq!(index.stats().blocks, 1250);
    assert_eq!(index.overlaps(&long), Overlaps(vec![(A, device(1200)), (B, device(100))]));
    assert_eq!(index.overlaps(&other), Overlaps(vec![(A, device(100)), (B, device(150))]));

    let mut pushed = Pushed::default();
    pushed.follow(&mut index);
    let (overlaps, stats) = pushed.lookup(&long);
    assert_eq!(overlaps, index.overlaps(&long));
    assert_eq!((stats.runs, stats.rejected_pages, stats.truncated), (3, 0, false));
    assert!(stats.pages <= 3);
}

#[test]
fn a_conversation_that_grows_block_by_block_stays_one_run() {
    let mut index = index();
    let blocks = chain(0..u64::from(RUN_BLOCKS));
    for (at, block) in blocks.iter().enumerate() {
        let parent = at.checked_sub(1).map(|at| blocks[at]);
        assert_eq!(index.store(A, Tier::Device, parent, &[*block]).added, 1);
    }
    let stats = index.stats();
    assert_eq!((stats.runs, stats.holders, stats.holder_blocks), (1, 1, 512));
}

#[test]
fn references_are_counted() {
    let mut index = index();
    let blocks = chain(0..4);
    index.store(A, Tier::Device, None, &blocks);
    index.store(A, Tier::Device, None, &blocks[..2]);
    assert_eq!(index.stats().holder_blocks, 4);
    assert!(index.remove(A, Tier::Device, blocks[1]));
    assert_eq!(index.overlaps(&blocks).get(A), device(4));
    assert!(index.remove(A, Tier::Device, blocks[1]));
    assert_eq!(index.overlaps(&blocks).get(A), device(1));
    assert!(!index.remove(A, Tier::Device, blocks[1]));
    assert!(!index.remove(A, Tier::Host, blocks[0]));
    assert!(!index.remove(B, Tier::Device, blocks[0]));
}

#[test]
fn a_hole_shortens_and_filling_it_brings_everything_back() {
    let mut index = index();
    let blocks = chain(0..10);
    index.store(A, Tier::Device, None, &blocks);
    assert!(index.remove(A, Tier::Device, blocks[4]));
    assert!(!index.knows(blocks[4]));
    assert!(index.knows(blocks[5]));
    assert_eq!(index.overlaps(&blocks).get(A), device(4));
    index.store(A, Tier::Device, Some(blocks[3]), &blocks[4..5]);
    assert_eq!(index.overlaps(&blocks).get(A), device(10));
    assert_eq!(index.stats().runs, 1);
}

#[test]
fn tiers_extend_one_another() {
    let mut index = index();
    let blocks = chain(0..10);
    index.store(A, Tier::Device, None, &blocks[..3]);
    index.store(A, Tier::Host, Some(blocks[1]), &blocks[2..6]);
    index.store(A, Tier::Disk, None, &blocks);
    assert_eq!(index.overlaps(&blocks).get(A), Overlap { device: 3, host: 3, disk: 4 });
    index.clear(A, Some(Tier::Host));
    assert_eq!(index.overlaps(&blocks).get(A), Overlap { device: 3, host: 0, disk: 7 });
    index.clear(A, None);
    assert_eq!(index.overlaps(&blocks), Overlaps::default());
    assert_eq!((index.stats().blocks, index.stats().runs, index.stats().holders), (0, 0, 0));
}

#[test]
fn children_stored_before_their_parent_count_once_it_is_there() {
    let mut index = index();
    let blocks = chain(0..8);
    assert_eq!(index.store(A, Tier::Device, Some(blocks[3]), &blocks[4..]).added, 4);
    assert_eq!(index.overlaps(&blocks), Overlaps::default());
    let mut depths = Vec::new();
    index.for_each_holder(|_, _, _, depth| depths.push(depth));
    assert_eq!(depths, [None; 4]);
    index.store(A, Tier::Device, None, &blocks[..4]);
    assert_eq!(index.overlaps(&blocks).get(A), device(8));
    index.for_each_holder(|slot, tier, block, depth| {
        assert_eq!((slot, tier), (A, Tier::Device));
        assert_eq!(depth, blocks.iter().position(|of| *of == block).map(|at| at as u32));
    });
}

#[test]
fn at_the_bound_the_least_recently_stored_leaf_goes_first() {
    let tuning = Tuning { run_blocks: 8, pages: PageTuning::default() };
    let mut index = PrefixIndex::tuned(IndexLimits { max_blocks: 40 }, 1, tuning);
    let shared = chain(0..8);
    let leaf = |name: u64| chain((0..8).chain(name * 100..name * 100 + 8));
    for name in 1..=4 {
        index.store(A, Tier::Device, None, &leaf(name));
    }
    assert_eq!(index.stats().blocks, 40);
    // Stored again, the first leaf is now the youngest.
    index.store(A, Tier::Device, Some(shared[7]), &leaf(1)[8..]);
    let outcome = index.store(B, Tier::Device, Some(shared[7]), &leaf(5)[8..]);
    assert_eq!((outcome.added, outcome.evicted_blocks), (8, 8));
    assert_eq!(index.stats().evicted_blocks, 8);
    let left = |name: u64| index.overlaps(&leaf(name)).get(A).total();
    assert_eq!([1, 2, 3, 4].map(left), [16, 8, 16, 16]);
    assert!(index.holds(B, Tier::Device, leaf(5)[15]), "kept although its prefix is not held by the same target");
}

#[test]
fn a_run_with_branches_loses_what_lies_behind_them() {
    let tuning = Tuning { run_blocks: 8, pages: PageTuning::default() };
    let mut index = PrefixIndex::tuned(IndexLimits { max_blocks: 16 }, 1, tuning);
    let first = chain(0..8);
    let branch = chain((0..3).chain(100..105));
    index.store(A, Tier::Device, None, &first);
    index.store(A, Tier::Device, None, &branch);
    assert_eq!(index.stats().blocks, 13);
    index.store(A, Tier::Device, None, &chain(200..208));
    assert_eq!(index.stats().blocks, 16);
    assert_eq!(index.overlaps(&first).get(A), device(3));
    assert_eq!(index.overlaps(&branch).get(A), device(8));
}

/// Engines that store and evict all day must not make the index grow: neither removed runs nor moved entries may leave
/// anything behind.
#[test]
fn memory_is_flat_under_churn() {
    fn steady(max_blocks: u64, mut turn: impl FnMut(&mut PrefixIndex, u64)) -> (u64, u64) {
        let mut index = PrefixIndex::new(IndexLimits { max_blocks });
        let mut peak = |turns: std::ops::Range<u64>| {
            let measure = |name| {
                turn(&mut index, name);
                index.take_dirty();
                index.stats().bytes
            };
            turns.map(measure).max().unwrap()
        };
        (peak(0..12_000), peak(12_000..40_000))
    }
    let name_of = |name: u64| chain((0..4).chain(name * 100 + 10..name * 100 + 30));

    // Caches of 500 prompts each: the oldest goes, last block first, when a new one comes.
    let (warm, later) = steady(1 << 20, |index, name| {
        let slot = |name: u64| Slot((name % 8) as u16);
        index.store(slot(name), Tier::Device, None, &name_of(name));
        if let Some(old) = name.checked_sub(4000 - 8) {
            for block in name_of(old).iter().rev() {
                assert!(index.remove(slot(old), Tier::Device, *block));
            }
        }
    });
    assert!(later <= warm + warm / 20, "{warm} bytes after warm-up, {later} later");

    // The same without removals, at the bound.
    let (warm, later) = steady(20_000, |index, name| {
        index.store(Slot((name % 8) as u16), Tier::Device, None, &name_of(name));
    });
    assert!(later <= warm + warm / 20, "{warm} bytes after warm-up, {later} later");
}
