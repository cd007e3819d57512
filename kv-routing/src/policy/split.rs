//! Prefill and decode on different targets: whether, and on which.
//!
//! ```text
//! the pool has prefill or decode targets, and the policy does not forbid it
//!   |  every prefill target has too much queued  ──▶ whole, where that can be
//! prefill target: by the policy's mode, for nothing but prefill
//!   |  none can be chosen                  ──▶ whole, or refused
//! decode target: by load whatever the mode, tied to the prefill target by a label (by overlap too, where short prompts
//!   |            may stay there)
//!   |  none can be chosen                  ──▶ the next value of a required label, else whole, or refused
//!   |  little is uncached there            ──▶ whole, on that target
//!   ▼
//! apart
//! ```

use std::borrow::Cow;

use super::document::{Disaggregation, DisaggregationMode, Mode, Overload, Policy, Topology};
use super::route::{Hints, How, Outcome, PassReason, Refusal, route, route_as};
use super::{Choice, Phase, Rng, Situation, TargetLoad};
use crate::handoff::Protocol;
use crate::index::Overlaps;
use crate::wire::{Health, Role, TargetEntry};

/// Where a request goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What becomes of the whole request, or of its prefill when there is a `decode`.
    pub outcome: Outcome,
    /// Where it is decoded; only beside a chosen prefill target.
    pub decode: Option<Choice>,
    /// Why it is not handed over although the pool has targets of its own for prefill or decode.
    pub whole: Option<Whole>,
}

/// Why a pool with prefill targets does not hand a request over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whole {
    /// No prefill target may be chosen: none is alive, or the policy allows none.
    NoPrefill,
    /// Every prefill target has too much queued, or is over another threshold.
    PrefillBusy,
    /// No decode target may be chosen beside the prefill target.
    NoDecode,
    /// Every one is over a threshold.
    DecodeBusy,
    /// Too little of the prompt is uncached at the decode target.
    Short,
    /// No prefill wait is left.
    Limit,
    /// Prefill failed.
    Failed,
    /// The prefill call answered all there is to answer.
    Finished,
}

impl Whole {
    /// Its word in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoPrefill => "no_prefill",
            Self::PrefillBusy => "prefill_busy",
            Self::NoDecode => "no_decode",
            Self::DecodeBusy => "decode_busy",
            Self::Short => "short",
            Self::Limit => "limit",
            Self::Failed => "prefill_failed",
            Self::Finished => "finished",
        }
    }

    /// What clients are told whose requests cannot be served for this reason.
    fn told(self) -> &'static str {
        match self {
            Self::NoPrefill => "prefill: no prefill worker can take this request",
            Self::PrefillBusy => "prefill: every prefill worker is busy",
            Self::NoDecode => "decode: no decode worker can take this request",
            Self::DecodeBusy => "decode: every decode worker is busy",
            Self::Limit => "prefill: too many prefill calls are under way",
            Self::Failed => "prefill: failed on every prefill worker that was tried",
            Self::Short | Self::Finished => "no worker serves a request whole",
        }
    }

    /// The answer to a request that cannot be served for this reason: as the policy answers any that nobody can take.
    pub fn refusal(self, overload: &Overload) -> Refusal {
        let (status, seconds) = match *overload {
            Overload::Reject { status, retry_after_seconds } => (status, retry_after_seconds),
            Overload::Pass => (503, 1),
        };
        Refusal { status, retry_after_seconds: Some(seconds), message: self.told().into() }
    }
}

/// Sends a request through `policy`, in a pool whose prefill targets hand over by `protocol`; unless it `fits`, this request cannot be
/// handed over.
pub fn plan(
    situation: &Situation<'_>,
    policy: &Policy,
    protocol: Protocol,
    fits: bool,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Plan {
    let rules = &policy.disaggregation;
    if situation.targets.iter().all(|target| target.role == Role::Both) {
        return Plan { outcome: route(situation, policy, hints, rng), decode: None, whole: None };
    }
    let named = matches!(policy.mode, Mode::Direct { .. } | Mode::Pass);
    if !fits || named || rules.mode != DisaggregationMode::Auto {
        return Plan { outcome: whole(situation, policy, protocol, None, hints, rng), decode: None, whole: None };
    }
    if is_prefill_busy(rules, situation) {
        let why = Some(Whole::PrefillBusy);
        let outcome = whole(situation, policy, protocol, why, hints, rng);
        // Where nobody serves it whole, it waits its turn.
        if matches!(outcome, Outcome::Chosen(_)) {
            return Plan { outcome, decode: None, whole: why };
        }
    }
    match pair(situation, policy, protocol, hints, rng) {
        Ok((prefill, decode)) => Plan { outcome: Outcome::Chosen(prefill), decode: Some(decode), whole: None },
        Err(Instead(why, Some(there))) => Plan { outcome: Outcome::Chosen(*there), decode: None, whole: Some(why) },
        Err(Instead(why, None)) => {
            let outcome = if rules.aggregated_fallback {
                whole(situation, policy, protocol, Some(why), hints, rng)
            } else {
                Outcome::Refused(why.refusal(&policy.overload))
            };
            Plan { outcome, decode: None, whole: Some(why) }
        }
    }
}

/// Whether the chosen target can do without a prefill elsewhere.
pub fn serves_whole(protocol: Protocol, targets: &[TargetEntry], choice: &Choice) -> bool {
    protocol.decode_serves_whole()
        || targets.get(choice.target as usize).is_some_and(|target| target.role != Role::Decode)
}

/// Sends a request to one target alone, `why` says why. Where the engines of decode targets cannot serve it, neither can Envoy find any.
fn whole(
    situation: &Situation<'_>,
    policy: &Policy,
    protocol: Protocol,
    why: Option<Whole>,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Outcome {
    let outcome = route(situation, policy, hints, rng);
    let is_served = match &outcome {
        Outcome::Chosen(choice) => serves_whole(protocol, situation.targets, choice),
        Outcome::Pass(PassReason::NoTarget | PassReason::Busy) => protocol.decode_serves_whole(),
        Outcome::Pass(PassReason::Mode) | Outcome::Refused(_) => true,
    };
    if is_served { outcome } else { Outcome::Refused(why.unwrap_or(Whole::Short).refusal(&policy.overload)) }
}

/// Whether there are prefill targets, and every one has too much queued.
fn is_prefill_busy(rules: &Disaggregation, situation: &Situation<'_>) -> bool {
    let Some(most) = rules.prefill_busy_tokens else { return false };
    let all = situation.targets.iter().zip(situation.loads);
    let alive = all.filter(|(target, _)| target.role == Role::Prefill && target.health != Health::Unhealthy);
    alive.map(|(_, load)| load.prefill_tokens).min().is_some_and(|least| least > most)
}

/// Why a request is not handed over, and by what it is served if that is known.
struct Instead(Whole, Option<Box<Choice>>);

/// Prefill and decode target: of those that a required label allows together, the best prefill target, and the best decode target for it.
fn pair(
    situation: &Situation<'_>,
    policy: &Policy,
    protocol: Protocol,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Result<(Choice, Choice), Instead> {
    let rules = &policy.disaggregation;
    // Blocks that decoding uses are no business of a prefill target.
    let without_decode = |load: &TargetLoad| TargetLoad { decode_blocks: 0.0, shared_blocks: u32::MAX, ..*load };
    let loads: Vec<TargetLoad> = situation.loads.iter().map(without_decode).collect();
    // Every prefill target is named, as the next one to try.
    let any = How { fallbacks: u8::MAX, overload: Overload::Pass, ..How::of(policy) };
    let mut targets = Cow::Borrowed(situation.targets);
    let mut without_decode = None;
    loop {
        let prefill = Situation { targets: &targets, phase: Phase::Prefill, loads: &loads, ..*situation };
        let mut prefill = match route_as(&prefill, policy, &any, hints, rng) {
            Outcome::Chosen(prefill) => prefill,
            Outcome::Pass(PassReason::Busy) => return Err(Instead(without_decode.unwrap_or(Whole::PrefillBusy), None)),
            _ => return Err(Instead(without_decode.unwrap_or(Whole::NoPrefill), None)),
        };
        let Some(target) = targets.get(prefill.target as usize).filter(|target| target.role == Role::Prefill) else {
            return Err(Instead(without_decode.unwrap_or(Whole::NoPrefill), None));
        };
        let place = rules.topology.as_ref().filter(|topology| topology.required);
        let place = place.and_then(|topology| Some((topology.label.as_str(), label_of(target, &topology.label)?)));
        let decode = match decode(situation, policy, target, hints, rng) {
            Outcome::Chosen(decode) => decode,
            other => {
                let busy = matches!(other, Outcome::Pass(PassReason::Busy));
                let why = if busy { Whole::DecodeBusy } else { Whole::NoDecode };
                let Some((label, value)) = place else { return Err(Instead(why, None)) };
                without_decode = Some(why);
                targets = Cow::Owned(fit_where(&targets, |other| label_of(other, label) != Some(value)));
                continue;
            }
        };
        if is_short(rules, situation.prompt_tokens, &decode) && serves_whole(protocol, &targets, &decode) {
            return Err(Instead(Whole::Short, Some(Box::new(decode))));
        }
        if let Some((label, value)) = place {
            prefill.retain(|at| targets.get(at as usize).is_some_and(|other| label_of(other, label) == Some(value)));
        }
        return Ok((prefill, decode));
    }
}

/// The decode target of what `prefill` computes. A prefill target without the topology's label hands over to anybody.
fn decode(
    situation: &Situation<'_>,
    policy: &Policy,
    prefill: &TargetEntry,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Outcome {
    // Modes say who computes a prompt. Who decodes it is a matter of load, and a session stays where it is prefilled.
    let how = &How { mode: &Mode::Kv, overload: Overload::Pass, ..How::of(policy) };
    let rules = &policy.disaggregation;
    let nothing = Overlaps::default();
    let mut decode = Situation { phase: Phase::Decode, prefix: None, ..*situation };
    if !rules.is_conditional() {
        (decode.overlaps, decode.predicted, decode.has_chain) = (&nothing, &nothing, false);
    }
    if let Some(Topology { label, required }) = &rules.topology
        && let Some(value) = label_of(prefill, label)
    {
        let near = fit_where(situation.targets, |target| label_of(target, label) == Some(value));
        let outcome = route_as(&Situation { targets: &near, ..decode }, policy, how, hints, rng);
        if *required || matches!(outcome, Outcome::Chosen(_)) {
            return outcome;
        }
    }
    route_as(&decode, policy, how, hints, rng)
}

fn is_short(rules: &Disaggregation, prompt_tokens: u32, decode: &Choice) -> bool {
    let uncached = decode.prefill_tokens;
    uncached < u64::from(rules.min_uncached_tokens)
        || (uncached as f64) < rules.min_uncached_ratio * f64::from(prompt_tokens)
}

fn label_of<'a>(target: &'a TargetEntry, label: &str) -> Option<&'a str> {
    target.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
}

/// `targets` with only those fit to be chosen for which `may` is true, in the same order.
fn fit_where(targets: &[TargetEntry], may: impl Fn(&TargetEntry) -> bool) -> Vec<TargetEntry> {
    let mut targets = targets.to_vec();
    for target in &mut targets {
        if !may(target) {
            target.health = Health::Unhealthy;
        }
    }
    targets
}

#[cfg(test)]
mod tests;
