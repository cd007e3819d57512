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

impl Ladder {
    /// The settings of a policy.
    pub fn of(policy: &Policy) -> Self {
        Self { weights: policy.weights, endpoints: policy.fallbacks.saturating_add(1), ..Self::default() }
    }
}

/// Sends a request through `policy`.
pub fn route(situation: &Situation<'_>, policy: &Policy, hints: &Hints<'_>, rng: &mut impl Rng) -> Outcome {
    if policy.mode == Mode::Pass {
        return Outcome::Pass(PassReason::Mode);
    }
    let fit = fit::fit(situation, policy);
    if let Mode::Direct { header } = &policy.mode {
        return match direct::find(situation.targets, &fit, header, hints.direct) {
            Ok(rated) => chosen(situation, policy, vec![rated], &[0]),
            Err(refusal) => Outcome::Refused(refusal),
        };
    }
    if fit.is_empty() {
        return overload(policy, PassReason::NoTarget);
    }
    let kept = |rated: &Rated<'_>| Some(rated.target.id) == hints.session;
    let idle: Vec<Rated<'_>> = fit.iter().copied().filter(|rated| !fit::busy(rated, &policy.busy)).collect();
    if let Mode::Session { hard, .. } = policy.mode {
        let bound = if hard { fit.iter() } else { idle.iter() };
        if let Some(at) = bound.clone().position(kept) {
            return stay(situation, policy, bound.copied().collect(), at, rng);
        }
    }
    if idle.is_empty() {
        return overload(policy, PassReason::Busy);
    }
    match order::by_mode(&policy.mode, situation, &idle, hints.turn, rng) {
        Some(order) => chosen(situation, policy, idle, &order),
        None => match descend(situation, &Ladder::of(policy), &Terms::of_policy(policy), idle, rng) {
            Ok(choice) => Outcome::Chosen(choice),
            Err(_) => overload(policy, PassReason::NoTarget),
        },
    }
}

/// The target at `at` first, the others by load.
fn stay(situation: &Situation<'_>, policy: &Policy, rated: Vec<Rated<'_>>, at: usize, rng: &mut impl Rng) -> Outcome {
    let at = u32::try_from(at).unwrap_or(0);
    let mut order = order::by_load(&rated, rng);
    order.retain(|position| *position != at);
    order.insert(0, at);
    chosen(situation, policy, rated, &order)
}

fn chosen(situation: &Situation<'_>, policy: &Policy, rated: Vec<Rated<'_>>, order: &[u32]) -> Outcome {
    let priced = price_all(situation, &Terms::of_policy(policy), Rung::Mode, rated);
    match choice(situation, policy.fallbacks.saturating_add(1), Rung::Mode, &priced, order) {
        Some(choice) => Outcome::Chosen(choice),
        None => overload(policy, PassReason::NoTarget),
    }
}

fn overload(policy: &Policy, reason: PassReason) -> Outcome {
    match policy.overload {
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
