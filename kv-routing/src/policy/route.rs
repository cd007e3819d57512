//! A request through its policy: who may be chosen, how one is, and what happens when none can be.
//!
//! ```text
//! pool's targets --labels, role, health--> eligible --states--> fit --thresholds--> not busy --mode--> chosen
//!        |                                    |                  |                     |
//!        +------------------------------------+--- none left ----+---------------------+--> overload: pass or refuse
//! ```

mod direct;
mod fit;
mod order;
mod weigh;

pub use weigh::{LeftOut, Weighed, weigh};

use thiserror::Error;

use super::decide::{Rated, Terms, choice, descend, price_all};
use super::document::{Mode, Overload, Policy};
use super::{Choice, Ladder, Rng, Rung, Situation};
use crate::target::TargetId;

/// What a request itself says about where it should go, and what is remembered of earlier ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// Target that served the request's session before.
    pub session: Option<TargetId>,
    /// Value of the header that names a target, in mode `direct`.
    pub direct: Option<&'a [u8]>,
    /// Counts the requests of this VM, for mode `round_robin`.
    pub turn: u32,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It goes to a target.
    Chosen(Choice),
    /// Envoy's own balancing takes it.
    Pass(PassReason),
    /// The client gets an answer instead.
    Refused(Refusal),
}

/// Why a request is left to Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassReason {
    /// The policy's mode says so.
    Mode,
    /// No target may be chosen.
    NoTarget,
    /// Every target is over a threshold.
    Busy,
}

impl PassReason {
    /// Word used in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::NoTarget => "no_target",
            Self::Busy => "busy",
        }
    }
}

/// An answer instead of a target.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Value of `retry-after`, where waiting helps.
    pub retry_after_seconds: Option<u32>,
    /// What the client is told.
    pub message: String,
}

/// What of a policy is another thing in one phase of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct How<'a> {
    pub(super) mode: &'a Mode,
    pub(super) fallbacks: u8,
    pub(super) overload: Overload,
}

impl<'a> How<'a> {
    /// As the policy says.
    pub(super) fn of(policy: &'a Policy) -> Self {
        Self { mode: &policy.mode, fallbacks: policy.fallbacks, overload: policy.overload }
    }

    fn endpoints(&self) -> u8 {
        self.fallbacks.saturating_add(1)
    }
}

/// Sends a request through `policy`.
pub fn route(situation: &Situation<'_>, policy: &Policy, hints: &Hints<'_>, rng: &mut impl Rng) -> Outcome {
    route_as(situation, policy, &How::of(policy), hints, rng)
}

/// The same, with `how` in place of what the policy says.
pub(super) fn route_as(
    situation: &Situation<'_>,
    policy: &Policy,
    how: &How<'_>,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Outcome {
    if *how.mode == Mode::Pass {
        return Outcome::Pass(PassReason::Mode);
    }
    let fit = fit::fit(situation, policy);
    if let Mode::Direct { header } = how.mode {
        return match direct::find(situation.targets, &fit, header, hints.direct) {
            Ok(rated) => chosen(situation, policy, how, vec![rated], &[0]),
            Err(refusal) => Outcome::Refused(refusal),
        };
    }
    if fit.is_empty() {
        return overload(how, PassReason::NoTarget);
    }
    let kept = |rated: &Rated<'_>| Some(rated.target.id) == hints.session;
    let idle: Vec<Rated<'_>> = fit.iter().copied().filter(|rated| !fit::busy(rated, &policy.busy)).collect();
    if let Mode::Session { hard, .. } = *how.mode {
        let bound = if hard { fit.iter() } else { idle.iter() };
        if let Some(at) = bound.clone().position(kept) {
            return stay(situation, policy, how, bound.copied().collect(), at, rng);
        }
    }
    if idle.is_empty() {
        return overload(how, PassReason::Busy);
    }
    let ladder = || Ladder { weights: policy.weights, endpoints: how.endpoints(), ..Ladder::default() };
    match order::by_mode(how.mode, situation, &idle, hints.turn, rng) {
        Some(order) => chosen(situation, policy, how, idle, &order),
        None => match descend(situation, &ladder(), &Terms::of_policy(policy), idle, rng) {
            Ok(choice) => Outcome::Chosen(choice),
            Err(_) => overload(how, PassReason::NoTarget),
        },
    }
}

/// The target at `at` first, the others by load.
fn stay(
    situation: &Situation<'_>,
    policy: &Policy,
    how: &How<'_>,
    rated: Vec<Rated<'_>>,
    at: usize,
    rng: &mut impl Rng,
) -> Outcome {
    let at = u32::try_from(at).unwrap_or(0);
    let mut order = order::by_load(&rated, rng);
    order.retain(|position| *position != at);
    order.insert(0, at);
    chosen(situation, policy, how, rated, &order)
}

fn chosen(situation: &Situation<'_>, policy: &Policy, how: &How<'_>, rated: Vec<Rated<'_>>, order: &[u32]) -> Outcome {
    let priced = price_all(situation, &Terms::of_policy(policy), Rung::Mode, rated);
    match choice(situation, how.endpoints(), Rung::Mode, &priced, order) {
        Some(choice) => Outcome::Chosen(choice),
        None => overload(how, PassReason::NoTarget),
    }
}

fn overload(how: &How<'_>, reason: PassReason) -> Outcome {
    match how.overload {
        Overload::Pass => Outcome::Pass(reason),
        Overload::Reject { status, retry_after_seconds } => Outcome::Refused(Refusal {
            status,
            retry_after_seconds: Some(retry_after_seconds),
            message: match reason {
                PassReason::Busy => "every worker is busy".into(),
                PassReason::Mode | PassReason::NoTarget => "no worker can take this request".into(),
            },
        }),
    }
}

#[cfg(test)]
mod tests;
