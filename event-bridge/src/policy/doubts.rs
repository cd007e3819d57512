//! Settings that are well defined, though hardly as meant: they are warned about.

use kv_routing::openai::Endpoint;
use kv_routing::policy::CostWeights;
use kv_routing::policy::document::{Busy, Eligibility, Mode, Policy, Roles, RuleSet};
use kv_routing::wire::Role;

use super::expression;
use super::problem::{Problem, Problems, child};
use super::raw::RawPolicy;

/// What of one policy has no effect, or an odd one.
pub(super) fn check(raw: &RawPolicy, policy: &Policy, pointer: &str, problems: &mut Problems) {
    if policy.mode.prices() {
        prices(raw, policy, pointer, problems);
    } else {
        unpriced(raw, policy, pointer, problems);
    }
    let eligibility = child(pointer, "eligibility");
    if policy.eligibility.roles == Roles::of(&[Role::Prefill]) {
        let message = "prefill targets serve no request whole: without decode targets, none can be chosen";
        problems.warning(child(&eligibility, "roles"), message);
    }
    if raw.overload.is_some() && policy.busy == Busy::default() && policy.eligibility == Eligibility::default() {
        problems.warning(
            child(pointer, "overload"),
            "nothing makes a target busy or ineligible: only a pool without healthy targets gets here",
        );
    }
}

/// Settings of the price in a mode without one.
fn unpriced(raw: &RawPolicy, policy: &Policy, pointer: &str, problems: &mut Problems) {
    let message = format!("has no effect in mode `{}`, which does not price targets", policy.mode.as_str());
    for (field, set) in [
        ("weights", raw.weights.is_some()),
        ("tier", raw.tier.is_some()),
        ("temperature", raw.temperature.is_some()),
        ("cost", raw.cost.is_some()),
        ("affinity", raw.affinity.is_some()),
        ("eligibility/preferred_labels", !policy.eligibility.preferred_labels.is_empty()),
    ] {
        if set {
            problems.warning(format!("{pointer}/{field}"), message.clone());
        }
    }
}

fn prices(raw: &RawPolicy, policy: &Policy, pointer: &str, problems: &mut Problems) {
    let CostWeights { device_credit, prefill_scale, host_credit, disk_credit, .. } = policy.weights;
    match &policy.cost {
        None if prefill_scale == 0.0 => {
            for (field, set) in [("affinity", raw.affinity.is_some()), ("tier", raw.tier.is_some())] {
                if set {
                    let message =
                        "has no effect while `weights/prefill_scale` is 0: what a target holds counts nothing";
                    problems.warning(child(pointer, field), message);
                }
            }
        }
        Some(cost) if expression::may_be_negative(cost) && !policy.eligibility.preferred_labels.is_empty() => {
            let message = "preferences multiply the cost, and `cost` can be negative here: then they do the opposite. \
                           Keep it above 0, as by `max(0, ...)`";
            problems.warning(child(&child(pointer, "eligibility"), "preferred_labels"), message);
        }
        None | Some(_) => {}
    }
    if policy.cost.is_none() && device_credit == 0.0 && (host_credit > 0.0 || disk_credit > 0.0) && raw.tier.is_some() {
        problems.warning(child(pointer, "tier"), "slower tiers have credit while device memory has none");
    }
}

/// A rule on a path that the filter lets pass untouched.
pub(super) fn check_path(path: &str, pointer: &str, problems: &mut Problems) {
    if Endpoint::of_path(path).is_none() {
        let paths = Endpoint::ALL.map(Endpoint::path).join(", ");
        problems.warning(pointer, format!("nothing is routed on this path: policies see requests on {paths}"));
    }
}

/// Session policies of a shadow under which no request is ever found where it was before: sessions are remembered by the document
/// in force alone, each under the name of its policy.
pub(super) fn forgetful(shadow: &RuleSet, live: &RuleSet) -> Vec<Problem> {
    let remembered = |policy: &Policy| live.policies.iter().any(|live| same_sessions(live, policy));
    let mut problems = Problems::default();
    for policy in &shadow.policies {
        if matches!(policy.mode, Mode::Session { .. }) && !remembered(policy) {
            let message = format!(
                "sessions are remembered by the document in force, which has no session policy `{}` with this key: \
                 as a shadow, this one chooses as mode `kv` does",
                policy.name
            );
            problems.warning(child("/policies", &policy.name), message);
        }
    }
    problems.0
}

fn same_sessions(one: &Policy, other: &Policy) -> bool {
    match (&one.mode, &other.mode) {
        (Mode::Session { key: one_key, .. }, Mode::Session { key: other_key, .. }) => {
            one.name == other.name && one_key == other_key
        }
        _ => false,
    }
}
