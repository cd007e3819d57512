//! The one sort of this module: every generic sort is several kilobytes of the filter.

/// Positions of `keys` from the smallest to the largest; equal keys keep no order.
pub(super) fn rank(keys: impl Iterator<Item = (u64, u64)>) -> Vec<u32> {
    let mut keyed: Vec<(u64, u64, u32)> =
        (0..).zip(keys).map(|(position, (first, second))| (first, second, position)).collect();
    sort(&mut keyed);
    keyed.into_iter().map(|(_, _, position)| position).collect()
}

#[inline(never)]
fn sort(keyed: &mut [(u64, u64, u32)]) {
    keyed.sort_unstable();
}

/// A number that orders as `value` does among all floats but NaN.
pub(super) fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let values = [f64::NEG_INFINITY, -1e9, -1.0, -0.0, 0.0, 1e-300, 0.5, 1.0, 1e300, f64::INFINITY];
        assert!(values.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
    }

    #[test]
    fn the_second_key_decides_between_equal_first_ones() {
        assert_eq!(rank([(2, 0), (1, 9), (1, 3), (0, 5)].into_iter()), [3, 2, 1, 0]);
    }
}
