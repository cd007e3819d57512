//! Every target as a policy sees it, for people.

use super::fit;
use crate::index::Overlap;
use crate::policy::decide::{Rated, Terms, price_all, rate, rung};
use crate::policy::document::Policy;
use crate::policy::{CostParts, Rung, Situation, TargetLoad};
use crate::wire::SourceState;

/// Why a target cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Its health, role or labels do not fit, or those of others fit better.
    Unfit,
    /// The policy does not allow the state of its KV source.
    State,
    /// It is over a threshold of the policy.
    Busy,
}

impl LeftOut {
    /// Word used in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unfit => "unfit",
            Self::State => "state",
            Self::Busy => "busy",
        }
    }
}

/// One target as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// State of its KV source.
    pub state: SourceState,
    /// Factor its overlap counts with, 0 to 1.
    pub trust: f64,
    /// Its load.
    pub load: TargetLoad,
    /// Leading blocks of the prompt it holds by the index, trusted or not.
    pub overlap: Overlap,
    /// Its cost, or why it cannot be chosen.
    pub cost: Result<CostParts, LeftOut>,
}

/// What each target of the situation costs under `policy`, in the order of the table; the numbers [`super::route`] chooses by.
pub fn weigh(situation: &Situation<'_>, policy: &Policy) -> Vec<Weighed> {
    let candidates = fit::candidates(situation, policy);
    let (idle, busy): (Vec<_>, Vec<_>) =
        fit::fit(situation, policy).into_iter().partition(|rated| !fit::busy(rated, &policy.busy));
    let rung = if policy.mode.prices() { rung(situation, &idle) } else { Rung::Mode };
    let priced = price_all(situation, &Terms::of_policy(policy), rung, idle);
    let everyone: Vec<u32> = (0..).zip(situation.targets).map(|(position, _)| position).collect();
    let weigh_one = |rated: Rated<'_>| {
        let at = rated.position;
        let cost = match priced.iter().find(|priced| priced.position == at) {
            Some(priced) => Ok(priced.cost),
            None if busy.iter().any(|busy| busy.position == at) => Err(LeftOut::Busy),
            None if candidates.contains(&at) => Err(LeftOut::State),
            None => Err(LeftOut::Unfit),
        };
        let overlap = situation.overlaps.get(rated.target.slot);
        Weighed { state: rated.state, trust: rated.trust, load: rated.load, overlap, cost }
    };
    rate(situation, &everyone).into_iter().map(weigh_one).collect()
}
