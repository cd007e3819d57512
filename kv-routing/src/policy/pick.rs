//! From costs to an order of targets.

use super::Rng;
use super::rank::{ordered, rank};

/// An order of targets: the chosen one, then the others from cheap to dear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// Positions in the costs.
    pub order: Vec<u32>,
}

/// Orders targets by cost; equal costs come in random order, every one with the same chance.
///
/// With a temperature above 0 the chosen one is drawn instead: costs are min-max scaled and a target's chance is
/// proportional to `exp(-(cost - min) / ((max - min) * temperature))`; when all costs are equal, so are all chances.
/// Costs must not be NaN.
pub fn pick(costs: &[f64], temperature: f64, rng: &mut impl Rng) -> Pick {
    let mut order = rank(costs.iter().map(|cost| (ordered(*cost), rng.next_u64())));
    if temperature > 0.0 {
        let drawn = draw(costs, temperature, rng);
        if let Some(at) = order.iter().position(|position| *position == drawn) {
            let chosen = order.remove(at);
            order.insert(0, chosen);
        }
    }
    Pick { order }
}

fn draw(costs: &[f64], temperature: f64, rng: &mut impl Rng) -> u32 {
    let min = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let max = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = (max - min) * temperature;
    let chance = |cost: f64| if width > 0.0 { (-(cost - min) / width).exp() } else { 1.0 };
    let sum: f64 = costs.iter().map(|cost| chance(*cost)).sum();
    let mut left = rng.next_unit() * sum;
    let mut last = 0;
    for (position, cost) in (0..).zip(costs) {
        last = position;
        left -= chance(*cost);
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::SplitMix64;

    /// Draws of each case. The rarest target is drawn with a chance of 0.05: its share then has a relative standard error of 0.2 %.
    const ROUNDS: u32 = 4_000_000;

    fn shares(costs: &[f64], temperature: f64, place: usize) -> Vec<f64> {
        let mut rng = SplitMix64::new(11);
        let mut wins = vec![0_u32; costs.len()];
        for _ in 0..ROUNDS {
            wins[pick(costs, temperature, &mut rng).order[place] as usize] += 1;
        }
        wins.into_iter().map(|wins| f64::from(wins) / f64::from(ROUNDS)).collect()
    }

    /// Every share is within 1 % of what it should be, not of the whole.
    fn close(found: &[f64], expected: &[f64]) {
        let off = found.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 0.01 * expected);
        assert!(!off, "{found:?} is not {expected:?}");
    }

    /// The published chances, written out once more.
    fn softmax(costs: &[f64], temperature: f64) -> Vec<f64> {
        let min = costs.iter().copied().fold(f64::MAX, f64::min);
        let max = costs.iter().copied().fold(f64::MIN, f64::max);
        let chances: Vec<f64> = costs.iter().map(|cost| (-(cost - min) / ((max - min) * temperature)).exp()).collect();
        let sum: f64 = chances.iter().sum();
        chances.iter().map(|chance| chance / sum).collect()
    }

    /// Gives the same number again and again.
    struct Always(u64);

    impl Rng for Always {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_cheapest_wins_and_the_rest_follow_by_cost() {
        let mut rng = SplitMix64::new(5);
        assert_eq!(pick(&[3.0, -1.0, 2.0, 9.0], 0.0, &mut rng).order, [1, 2, 0, 3]);
        assert_eq!(pick(&[], 0.0, &mut rng), Pick::default());
        assert_eq!(pick(&[], 1.0, &mut rng), Pick::default());
    }

    #[test]
    fn ties_are_uniform_for_every_place() {
        let third = 1.0 / 3.0;
        close(&shares(&[2.0, 1.0, 1.0, 5.0, 1.0], 0.0, 0), &[0.0, third, third, 0.0, third]);
        for place in 0..3 {
            close(&shares(&[1.0; 3], 0.0, place), &[third; 3]);
        }
    }

    #[test]
    fn a_temperature_samples_by_softmax_of_scaled_costs() {
        let costs = [100.0_f64, 250.0, 175.0, 1000.0];
        for temperature in [0.5_f64, 1.0, 5.0] {
            close(&shares(&costs, temperature, 0), &softmax(&costs, temperature));
        }
        close(&shares(&[4.0; 4], 1.0, 0), &[0.25; 4]);
    }

    /// Low temperatures make some targets so rare that chance would hide an error: equally spaced numbers leave nothing to it.
    #[test]
    fn equally_spaced_random_numbers_give_the_chances_of_softmax() {
        const SPACES: u64 = 1 << 20;
        let costs = [-3.0_f64, 12.5, 40.0, 0.0, 17.0];
        for temperature in [0.15_f64, 0.3, 2.0] {
            let mut wins = [0_u32; 5];
            for space in 0..SPACES {
                let middle = (2 * space + 1) << 43;
                wins[pick(&costs, temperature, &mut Always(middle)).order[0] as usize] += 1;
            }
            let found = wins.map(|wins| f64::from(wins) / SPACES as f64);
            close(&found, &softmax(&costs, temperature));
        }
    }

    #[test]
    fn a_drawn_target_keeps_the_others_in_order() {
        let mut rng = SplitMix64::new(8);
        for _ in 0..100 {
            let order = pick(&[1.0, 2.0, 3.0], 10.0, &mut rng).order;
            assert!(order[1] < order[2], "{order:?}");
        }
    }
}
