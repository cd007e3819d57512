//! A few hashes out of a chain, by which others can tell how much of it a prompt or a cache has.

use std::iter::successors;

use super::SequenceHash;

/// Depths in blocks at which a chain of `blocks` blocks is marked: 1, 2, 3, 4, 6, 9 and on by half, and its end.
pub fn mark_depths(blocks: u32) -> impl Iterator<Item = u32> {
    let inner = successors(Some(1_u32), |depth| depth.checked_add((depth / 2).max(1)));
    inner.take_while(move |depth| *depth < blocks).chain((blocks > 0).then_some(blocks))
}

/// Hashes of `chain` at its [`mark_depths`].
pub fn marks(chain: &[SequenceHash]) -> Vec<SequenceHash> {
    let blocks = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    mark_depths(blocks).filter_map(|depth| chain.get(depth as usize - 1)).copied().collect()
}

/// Leading blocks of `chain` that a chain of `blocks` blocks with these `marks` has for certain.
pub fn marked_overlap(marks: &[SequenceHash], blocks: u32, chain: &[SequenceHash]) -> u32 {
    let depths = mark_depths(blocks).zip(marks);
    // Chained hashes agree up to some depth and never again behind it.
    let agreeing = depths.take_while(|(depth, mark)| chain.get(*depth as usize - 1) == Some(*mark));
    agreeing.last().map_or(0, |(depth, _)| depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(range: std::ops::Range<u64>) -> Vec<SequenceHash> {
        range.map(SequenceHash).collect()
    }

    #[test]
    fn depths_grow_by_half_and_end_with_the_chain() {
        let depths = |blocks| mark_depths(blocks).collect::<Vec<_>>();
        assert!(depths(0).is_empty());
        assert_eq!(depths(1), [1]);
        assert_eq!(depths(4), [1, 2, 3, 4]);
        assert_eq!(depths(20), [1, 2, 3, 4, 6, 9, 13, 19, 20]);
        assert!(mark_depths(u32::MAX).count() < 64);
    }

    #[test]
    fn overlap_is_exact_for_a_whole_chain_and_rounded_down_otherwise() {
        let long = chain(0..20);
        let marked = marks(&long);
        assert_eq!(marked_overlap(&marked, 20, &long), 20);
        assert_eq!(marked_overlap(&marked, 20, &chain(0..40)), 20);
        assert_eq!(marked_overlap(&marked, 20, &chain(0..12)), 9);
        assert_eq!(marked_overlap(&marked, 20, &chain(1..20)), 0);
        assert_eq!(marked_overlap(&marked, 20, &[]), 0);
        let forked: Vec<_> = chain(0..10).into_iter().chain(chain(100..110)).collect();
        assert_eq!(marked_overlap(&marked, 20, &forked), 9);
    }
}
