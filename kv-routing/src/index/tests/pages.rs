//! Pages from strangers, and how pages grow.

use proptest::prelude::*;

use super::{A, B, EPOCH, PageTuning, PrefixIndex, Pushed, Tuning, chain, index};
use crate::block::SequenceHash;
use crate::index::{IndexLimits, MAX_PAGE_BITS, Overlaps, lookup};
use crate::target::{Slot, Tier};
use crate::wire::Epoch;

fn filled() -> (PrefixIndex, Vec<SequenceHash>) {
    let tuning = Tuning { run_blocks: 6, pages: PageTuning { initial_bits: 0, max_bits: 0, ..PageTuning::default() } };
    let mut index = PrefixIndex::tuned(IndexLimits { max_blocks: 1 << 20 }, 7, tuning);
    let blocks = chain(0..20);
    index.store(A, Tier::Device, None, &blocks);
    index.store(B, Tier::Host, None, &blocks[..9]);
    index.store(Slot(40), Tier::Disk, None, &chain((0..3).chain(100..110)));
    (index, blocks)
}

/// The layout in README.md, spelled out for the smallest page that has everything.
#[test]
fn layout_is_the_documented_one() {
    let mut index = index();
    let blocks = [SequenceHash(0x0807_0605_0403_0201), SequenceHash(0x1817_1615_1413_1211)];
    index.store(A, Tier::Device, None, &blocks);
    index.store(B, Tier::Host, None, &blocks[..1]);
    index.store(Slot(0x0102), Tier::Device, None, &blocks);
    let mut expected = b"KVI\x01\x04\0\0\0".to_vec();
    expected.extend_from_slice(&0x0123_4567_89ab_cdef_u64.to_le_bytes());
    expected.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    expected.extend_from_slice(&[40, 0, 0, 0, 2, 0, 2, 0]);
    expected.extend_from_slice(&[0x11, 0x12, 0x13, 0x14]);
    expected.extend_from_slice(&[2, 0, 2, 0, 2, 0, 2, 0, 3, 0, 2, 1]);
    expected.extend_from_slice(&[0, 0, 1, 0, 1, 0, 1, 0, 9, 0]);
    assert_eq!(index.encode_page(0, EPOCH), expected);
}

#[test]
fn foreign_pages_are_counted_and_ignored() {
    let (index, blocks) = filled();
    let good = index.encode_page(0, EPOCH);
    let answer = |bytes: Vec<u8>, bits, epoch| {
        let mut source = Pushed { bits, pages: [(0, bytes)].into() };
        let (overlaps, stats) = lookup(&blocks, bits, epoch, &mut source);
        (overlaps, stats.rejected_pages)
    };
    assert_eq!(answer(good.clone(), 0, EPOCH), (index.overlaps(&blocks), 0));
    assert_eq!(answer(good.clone(), 0, Epoch(1)), (Overlaps::default(), 1));
    let mut newer = good.clone();
    newer[3] += 1;
    assert_eq!(answer(newer, 0, EPOCH), (Overlaps::default(), 1));
    assert_eq!(answer(index.encode_page(1, EPOCH), 0, EPOCH), (Overlaps::default(), 1));
    assert_eq!(answer(Vec::new(), 0, EPOCH), (Overlaps::default(), 1));
    assert_eq!(answer(good, MAX_PAGE_BITS + 1, EPOCH), (Overlaps::default(), 0));
    assert_eq!(lookup(&blocks, 0, EPOCH, &mut Pushed::default()).0, Overlaps::default());
}

#[test]
fn a_cut_page_never_tells_more_than_the_whole_one() {
    let (index, blocks) = filled();
    let good = index.encode_page(0, EPOCH);
    let whole = index.overlaps(&blocks);
    for cut in 0..good.len() {
        let mut source = Pushed { bits: 0, pages: [(0, good[..cut].to_vec())].into() };
        let (overlaps, stats) = lookup(&blocks, 0, EPOCH, &mut source);
        assert!(overlaps.0.iter().all(|(slot, overlap)| overlap.total() <= whole.get(*slot).total()));
        assert!(overlaps == whole || stats.rejected_pages == 1);
    }
}

/// Doubling keeps pages small and leaves no more of them than their content is worth.
#[test]
fn pages_grow_with_their_content() {
    let mut index = index();
    index.take_dirty();
    let mut bits = index.page_bits();
    for name in 0..4000_u64 {
        index.store(Slot((name % 7) as u16), Tier::Device, None, &chain(name * 1000..name * 1000 + 40 + name % 90));
        if index.page_bits() != bits {
            bits = index.page_bits();
            assert_eq!(index.take_dirty(), (0..1 << bits).collect::<Vec<u32>>());
        }
    }
    let sizes: Vec<usize> = (0..1 << bits).map(|page| index.encode_page(page, EPOCH).len()).collect();
    let (largest, total) = (sizes.iter().max().unwrap(), sizes.iter().sum::<usize>());
    assert!(*largest <= 5 << 10, "largest page has {largest} bytes");
    assert!(total / sizes.len() >= 500, "{} pages of {} bytes on average", sizes.len(), total / sizes.len());
    let estimated = index.stats().page_bytes as usize;
    assert!(estimated.abs_diff(total) * 5 < total, "estimated {estimated}, encoded {total}");
}

/// Prompts can be searched for until all of their first blocks fall into one page.
#[test]
fn one_page_cannot_be_flooded() {
    let mut index = index();
    for name in 0..20_000_u64 {
        index.store(A, Tier::Device, None, &[SequenceHash(name)]);
    }
    assert!(index.stats().evicted_blocks > 0);
    assert!(index.encode_page(0, EPOCH).len() <= 64 << 10);
    assert!(index.holds(A, Tier::Device, SequenceHash(19_999)), "the youngest stay");
    assert!(index.stats().pages <= 1 << 8);
}

/// Clients who branch off one another block by block get a run per block, but not an unbounded walk.
#[test]
fn a_walk_is_bounded() {
    let mut index = index();
    let trunk = chain(0..700);
    for at in 0..=700 {
        index.store(A, Tier::Device, None, &chain((0..at).chain([1_000_000 + at])));
    }
    assert_eq!(index.overlaps(&trunk).get(A).total(), 700);
    let mut pushed = Pushed::default();
    pushed.follow(&mut index);
    let (overlaps, stats) = pushed.lookup(&trunk);
    assert_eq!((overlaps.get(A).total(), stats.runs, stats.truncated), (512, 512, true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever the bytes are, a lookup ends, and nobody covers more than the chain has.
    #[test]
    fn mutated_pages_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (index, blocks) = filled();
        let mut page = index.encode_page(0, EPOCH);
        for (at, value) in changes {
            let at = at.index(page.len());
            page[at] = value;
        }
        if let Some(cut) = cut {
            page.truncate(cut.index(page.len()));
        }
        let mut source = Pushed { bits: 0, pages: [(0, page)].into() };
        let (overlaps, stats) = lookup(&blocks, 0, EPOCH, &mut source);
        prop_assert!(overlaps.0.iter().all(|(_, overlap)| overlap.total() as usize <= blocks.len()));
        prop_assert!(stats.pages <= blocks.len() as u32 && stats.rejected_pages <= 1);
    }
}
