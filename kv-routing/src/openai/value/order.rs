//! The one sort of this part of the crate.

use std::cmp::Ordering;

/// The numbers below `len` in the order of `compare`, equal ones as they come. Not generic, since every sort is several
/// kilobytes of the filter.
#[inline(never)]
pub(crate) fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    order
}
