//! Prefill and decode on different targets: whether, and on which.
//!
//! ```text
//! the pool has prefill or decode targets, and the policy does not forbid it
//!   |  no prefill target is alive          ──▶ whole, or refused
//!   |  every prefill target has too much queued  ──▶ whole
//! prefill target: by the policy's mode, for nothing but prefill
//!   |
//! decode target: by load whatever the mode, tied to the prefill target by a label (by overlap too, where short prompts
//!   |            may stay there)
//!   |  little is uncached there            ──▶ whole, on that target
//!   ▼
//! apart
//! ```

use super::document::{Disaggregation, DisaggregationMode, Mode, Policy, Topology};
use super::route::{Hints, Outcome, Refusal, route};
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
    /// Why it is served whole although the pool has targets of its own for prefill or decode.
    pub whole: Option<Whole>,
}

/// Why a pool with prefill targets serves a request whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whole {
    /// No prefill target is alive.
    NoPrefill,
    /// Every prefill target has too much queued.
    PrefillBusy,
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
            Self::Short => "short",
            Self::Limit => "limit",
            Self::Failed => "prefill_failed",
            Self::Finished => "finished",
        }
    }
}

/// Sends a request through `policy`, in a pool whose prefill targets hand over by `protocol`; `None`: this request cannot be
/// handed over.
pub fn plan(
    situation: &Situation<'_>,
    policy: &Policy,
    protocol: Option<Protocol>,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Plan {
    let rules = &policy.disaggregation;
    let split = situation.targets.iter().any(|target| target.role != Role::Both);
    let named = matches!(policy.mode, Mode::Direct { .. } | Mode::Pass);
    let Some(protocol) = protocol.filter(|_| split && !named && rules.mode == DisaggregationMode::Auto) else {
        return Plan { outcome: route(situation, policy, hints, rng), decode: None, whole: None };
    };
    match pair(situation, policy, protocol, hints, rng) {
        Ok((prefill, decode)) => Plan { outcome: prefill, decode: Some(decode), whole: None },
        Err(Instead(why, Some(there))) => Plan { outcome: Outcome::Chosen(*there), decode: None, whole: Some(why) },
        Err(Instead(why, None)) => {
            let outcome = if why == Whole::NoPrefill && !rules.aggregated_fallback {
                no_prefill()
            } else {
                match route(situation, policy, hints, rng) {
                    Outcome::Chosen(choice) if !serves_whole(protocol, situation.targets, &choice) => no_prefill(),
                    outcome => outcome,
                }
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

fn no_prefill() -> Outcome {
    let message = "no prefill worker can take this request".into();
    Outcome::Refused(Refusal { status: 503, retry_after_seconds: Some(1), message })
}

/// Why a request is served whole, and by what if that is known.
struct Instead(Whole, Option<Box<Choice>>);

/// Prefill and decode target.
fn pair(
    situation: &Situation<'_>,
    policy: &Policy,
    protocol: Protocol,
    hints: &Hints<'_>,
    rng: &mut impl Rng,
) -> Result<(Outcome, Choice), Instead> {
    let rules = &policy.disaggregation;
    let alive = || {
        let all = situation.targets.iter().zip(situation.loads);
        all.filter(|(target, _)| target.role == Role::Prefill && target.health != Health::Unhealthy)
    };
    if rules.prefill_busy_tokens.is_some_and(|most| alive().all(|(_, load)| load.prefill_tokens > most)) {
        return Err(Instead(Whole::PrefillBusy, None));
    }
    // Blocks that decoding uses are no business of a prefill target.
    let without_decode = |load: &TargetLoad| TargetLoad { decode_blocks: 0.0, shared_blocks: u32::MAX, ..*load };
    let loads: Vec<TargetLoad> = situation.loads.iter().map(without_decode).collect();
    let prefill = Situation { phase: Phase::Prefill, loads: &loads, ..*situation };
    let Outcome::Chosen(mut prefill) = route(&prefill, policy, hints, rng) else {
        return Err(Instead(Whole::NoPrefill, None));
    };
    let Some(target) = situation.targets.get(prefill.target as usize).filter(|target| target.role == Role::Prefill)
    else {
        return Err(Instead(Whole::NoPrefill, None));
    };
    let Outcome::Chosen(decode) = decode(situation, policy, target, hints, rng) else {
        return Err(Instead(Whole::NoPrefill, None));
    };
    if is_short(rules, situation.prompt_tokens, &decode) && serves_whole(protocol, situation.targets, &decode) {
        return Err(Instead(Whole::Short, Some(Box::new(decode))));
    }
    if let Some(Topology { label, required: true }) = &rules.topology {
        let here = label_of(target, label);
        prefill.order.retain(|at| situation.targets.get(*at as usize).and_then(|other| label_of(other, label)) == here);
    }
    Ok((Outcome::Chosen(prefill), decode))
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
    let policy = &Policy { mode: Mode::Kv, ..policy.clone() };
    let rules = &policy.disaggregation;
    let nothing = Overlaps::default();
    let mut decode = Situation { phase: Phase::Decode, prefix: None, ..*situation };
    if !rules.is_conditional() {
        (decode.overlaps, decode.predicted, decode.has_chain) = (&nothing, &nothing, false);
    }
    if let Some(Topology { label, required }) = &rules.topology
        && let Some(value) = label_of(prefill, label)
    {
        let near = labelled(situation.targets, label, value);
        let outcome = route(&Situation { targets: &near, ..decode }, policy, hints, rng);
        if *required || matches!(outcome, Outcome::Chosen(_)) {
            return outcome;
        }
    }
    route(&decode, policy, hints, rng)
}

fn is_short(rules: &Disaggregation, prompt_tokens: u32, decode: &Choice) -> bool {
    let uncached = decode.prefill_tokens;
    uncached < u64::from(rules.min_uncached_tokens)
        || (uncached as f64) < rules.min_uncached_ratio * f64::from(prompt_tokens)
}

fn label_of<'a>(target: &'a TargetEntry, label: &str) -> Option<&'a str> {
    target.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
}

/// `targets` with only those fit to be chosen that have `value` for `label`, in the same order.
fn labelled(targets: &[TargetEntry], label: &str, value: &str) -> Vec<TargetEntry> {
    let fit = |target: &TargetEntry| {
        let mut target = target.clone();
        if label_of(&target, label) != Some(value) {
            target.health = Health::Unhealthy;
        }
        target
    };
    targets.iter().map(fit).collect()
}

#[cfg(test)]
mod tests;
