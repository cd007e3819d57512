//! Orders of targets that do not depend on cost.

use crate::policy::decide::Rated;
use crate::policy::document::Mode;
use crate::policy::rank::rank;
use crate::policy::{Rng, Situation, bounded_order, pick};

/// Positions in `rated` in the order a mode gives them; `None` for modes that price.
pub(super) fn by_mode(
    mode: &Mode,
    situation: &Situation<'_>,
    rated: &[Rated<'_>],
    turn: u32,
    rng: &mut impl Rng,
) -> Option<Vec<u32>> {
    match mode {
        Mode::Kv | Mode::Session { .. } | Mode::Direct { .. } | Mode::Pass => None,
        Mode::LeastLoaded => Some(by_load(rated, rng)),
        Mode::PowerOfTwo => Some(power_of_two(rated, rng)),
        Mode::RoundRobin => Some(in_turn(rated, turn)),
        Mode::Random => Some(pick(&vec![0.0; rated.len()], 0.0, rng).order),
        Mode::PrefixHash { load_bound_percent, .. } => Some(match situation.prefix {
            Some(key) => {
                let loads: Vec<_> = rated.iter().map(|rated| (rated.target.id, rated.load.requests)).collect();
                bounded_order(key, &loads, f64::from(*load_bound_percent) / 100.0)
            }
            None => by_load(rated, rng),
        }),
    }
}

/// Fewest active requests first, ties at random.
pub(super) fn by_load(rated: &[Rated<'_>], rng: &mut impl Rng) -> Vec<u32> {
    let requests: Vec<f64> = rated.iter().map(|rated| rated.load.requests).collect();
    pick(&requests, 0.0, rng).order
}

/// The less loaded of two random targets, then the rest at random.
fn power_of_two(rated: &[Rated<'_>], rng: &mut impl Rng) -> Vec<u32> {
    let mut order = pick(&vec![0.0; rated.len()], 0.0, rng).order;
    let requests = |position: Option<&u32>| {
        position.and_then(|position| rated.get(*position as usize)).map_or(f64::INFINITY, |rated| rated.load.requests)
    };
    if requests(order.get(1)) < requests(order.first()) {
        order.swap(0, 1);
    }
    order
}

/// By slot, beginning with the one whose turn it is.
fn in_turn(rated: &[Rated<'_>], turn: u32) -> Vec<u32> {
    let mut order = rank(rated.iter().map(|rated| (rated.target.slot.0.into(), 0)));
    let first = turn as usize % order.len().max(1);
    order.rotate_left(first);
    order
}
