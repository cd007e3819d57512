//! One policy of a document.

use kv_routing::policy::CostWeights;
use kv_routing::policy::document::{
    Affinity, Busy, Eligibility, ExplainLevel, LabelRule, Mode, Overload, Policy, Roles, SessionKey,
};
use kv_routing::wire::{Role, SourceState};

use super::compile::header_name;
use super::problem::{Problems, child};
use super::raw::{
    RawAffinity, RawBusy, RawEligibility, RawExplain, RawMode, RawOverload, RawOverloadAction, RawPolicy, RawSession,
    RawStickiness,
};
use super::{disaggregation, doubts, expression};

/// Most endpoints named beyond the chosen one: each is an attempt for Envoy.
const MAX_FALLBACKS: u8 = 16;
/// Prompt tokens hashed by `prefix_hash` when it is not told otherwise.
const DEFAULT_PREFIX_TOKENS: u32 = 256;
/// Load bound of `prefix_hash`, in hundredths of the mean load, when it is not told otherwise.
const DEFAULT_LOAD_BOUND: f64 = 1.25;
const DEFAULT_SESSION_TTL: u32 = 600;
const MAX_SESSION_TTL: u32 = 31_536_000;

pub(super) fn resolve(name: &str, raw: &RawPolicy, pointer: &str, problems: &mut Problems) -> Policy {
    let defaults = Policy::named(name);
    let mut policy = Policy {
        mode: mode(raw, pointer, problems),
        weights: weights(raw, pointer, problems),
        affinity: raw.affinity.as_ref().map_or(defaults.affinity, |raw| affinity(raw, pointer, problems)),
        eligibility: raw
            .eligibility
            .as_ref()
            .map_or_else(Eligibility::default, |raw| eligibility(raw, pointer, problems)),
        busy: raw.busy.as_ref().map_or(defaults.busy, |raw| busy(raw, pointer, problems)),
        overload: raw.overload.as_ref().map_or(defaults.overload, |raw| overload(raw, pointer, problems)),
        fallbacks: raw.fallbacks.unwrap_or(defaults.fallbacks),
        explain: raw.explain.map_or(defaults.explain, |raw| match raw {
            RawExplain::Off => ExplainLevel::Off,
            RawExplain::Log => ExplainLevel::Log,
            RawExplain::Header => ExplainLevel::Header,
            RawExplain::Trace => ExplainLevel::Trace,
        }),
        disaggregation: disaggregation::resolve(raw.disaggregation.as_ref(), pointer, problems),
        ..defaults
    };
    if policy.fallbacks > MAX_FALLBACKS {
        problems.error(child(pointer, "fallbacks"), format!("is {}, at most {MAX_FALLBACKS}", policy.fallbacks));
    }
    if let Some(text) = &raw.cost {
        match expression::compile(text) {
            Ok(program) => policy.cost = Some(program),
            Err(error) => problems.error(child(pointer, "cost"), error.to_string()),
        }
    }
    doubts::check(raw, &policy, pointer, problems);
    policy
}

fn mode(raw: &RawPolicy, pointer: &str, problems: &mut Problems) -> Mode {
    for (field, set, owner) in [
        ("prefix_hash", raw.prefix_hash.is_some(), RawMode::PrefixHash),
        ("session", raw.session.is_some(), RawMode::Session),
        ("direct", raw.direct.is_some(), RawMode::Direct),
    ] {
        if set && raw.mode != owner {
            problems.error(child(pointer, field), format!("belongs to mode `{field}`; remove it or change `mode`"));
        }
    }
    match raw.mode {
        RawMode::Kv => Mode::Kv,
        RawMode::LeastLoaded => Mode::LeastLoaded,
        RawMode::PowerOfTwo => Mode::PowerOfTwo,
        RawMode::RoundRobin => Mode::RoundRobin,
        RawMode::Random => Mode::Random,
        RawMode::Pass => Mode::Pass,
        RawMode::PrefixHash => prefix_hash(raw, pointer, problems),
        RawMode::Session => session(raw.session.as_ref(), &child(pointer, "session"), problems),
        RawMode::Direct => {
            let place = child(pointer, "direct");
            let Some(direct) = &raw.direct else {
                problems.error(place, "mode `direct` needs `\"direct\": {\"header\": NAME}`");
                return Mode::Pass;
            };
            let header = header_name(&direct.header, &child(&place, "header"), problems).unwrap_or_default();
            Mode::Direct { header }
        }
    }
}

fn prefix_hash(raw: &RawPolicy, pointer: &str, problems: &mut Problems) -> Mode {
    let place = child(pointer, "prefix_hash");
    let (tokens, bound) = raw.prefix_hash.as_ref().map_or((None, None), |raw| (raw.tokens, raw.load_bound));
    let tokens = tokens.unwrap_or(DEFAULT_PREFIX_TOKENS);
    if tokens == 0 {
        problems.error(child(&place, "tokens"), "must be at least 1");
    }
    let bound = within(bound.unwrap_or(DEFAULT_LOAD_BOUND), 1.0, 100.0, &child(&place, "load_bound"), problems);
    Mode::PrefixHash { tokens, load_bound_percent: (bound * 100.0).round() as u32 }
}

fn session(raw: Option<&RawSession>, pointer: &str, problems: &mut Problems) -> Mode {
    let Some(RawSession { header, user, stickiness, ttl_seconds }) = raw else {
        problems.error(
            pointer,
            "mode `session` needs `\"session\": {\"header\": NAME}` or `\"session\": {\"user\": true}`",
        );
        return Mode::Pass;
    };
    let key = match (header, user) {
        (Some(name), None | Some(false)) => {
            SessionKey::Header(header_name(name, &child(pointer, "header"), problems).unwrap_or_default())
        }
        (None, Some(true)) => SessionKey::User,
        _ => {
            problems.error(pointer, "needs either `header` or `\"user\": true`");
            SessionKey::User
        }
    };
    let ttl_seconds = ttl_seconds.unwrap_or(DEFAULT_SESSION_TTL);
    if !(1..=MAX_SESSION_TTL).contains(&ttl_seconds) {
        problems.error(child(pointer, "ttl_seconds"), format!("must be from 1 to {MAX_SESSION_TTL}"));
    }
    Mode::Session { key, hard: !matches!(stickiness, Some(RawStickiness::Soft)), ttl_seconds }
}

fn weights(raw: &RawPolicy, pointer: &str, problems: &mut Problems) -> CostWeights {
    let mut weights = CostWeights::default();
    let mut set = |place: &mut f64, value: Option<f64>, max: f64, group: &str, field: &str| {
        if let Some(value) = value {
            let pointer = if field.is_empty() { child(pointer, group) } else { child(&child(pointer, group), field) };
            *place = within(value, 0.0, max, &pointer, problems);
        }
    };
    if let Some(raw) = &raw.weights {
        set(&mut weights.prefill_scale, raw.prefill_scale, CostWeights::MAX, "weights", "prefill_scale");
        set(&mut weights.request_weight, raw.request_weight, CostWeights::MAX, "weights", "request_weight");
        set(&mut weights.credit_decay, raw.credit_decay, CostWeights::MAX, "weights", "credit_decay");
    }
    if let Some(raw) = &raw.tier {
        set(&mut weights.device_credit, raw.device, CostWeights::MAX, "tier", "device");
        set(&mut weights.host_credit, raw.host, 1.0, "tier", "host");
        set(&mut weights.disk_credit, raw.disk, 1.0, "tier", "disk");
    }
    set(&mut weights.temperature, raw.temperature, CostWeights::MAX, "temperature", "");
    if raw.tier.as_ref().is_some_and(|tier| tier.shared.is_some()) {
        problems.error(
            child(&child(pointer, "tier"), "shared"),
            "no engine's events tell what a cache shared by targets holds, so it would have no effect: remove it",
        );
    }
    weights
}

/// `value`, or the nearer end of the range and a problem.
pub(super) fn within(value: f64, min: f64, max: f64, pointer: &str, problems: &mut Problems) -> f64 {
    if (min..=max).contains(&value) {
        return value;
    }
    problems.error(pointer, format!("is {value}, must be a number from {min} to {max}"));
    if value < min { min } else { max }
}

fn affinity(raw: &RawAffinity, pointer: &str, problems: &mut Problems) -> Affinity {
    let place = child(pointer, "affinity");
    let RawAffinity { max_excess_blocks, max_load_ratio } = raw;
    if max_excess_blocks.is_none() && max_load_ratio.is_none() {
        problems.error(&place, "needs `max_excess_blocks` or `max_load_ratio`");
    }
    Affinity {
        max_excess_blocks: max_excess_blocks
            .map(|value| within(value, 0.0, 1e9, &child(&place, "max_excess_blocks"), problems)),
        max_load_ratio: max_load_ratio.map(|value| within(value, 1.0, 1e6, &child(&place, "max_load_ratio"), problems)),
    }
}

fn eligibility(raw: &RawEligibility, pointer: &str, problems: &mut Problems) -> Eligibility {
    let place = child(pointer, "eligibility");
    let RawEligibility { required_labels, preferred_labels, states, roles } = raw;
    let states = named(states, "state", SourceState::ALL.map(|state| (state.as_str(), state)), &place, problems);
    let roles = named(roles, "role", Role::ALL.map(|role| (role.as_str(), role)), &place, problems);
    let required_labels =
        required_labels.iter().map(|(label, values)| LabelRule { label: label.clone(), values: values.clone() });
    let preferred = child(&place, "preferred_labels");
    let preferred_labels = preferred_labels.iter().enumerate().map(|(at, raw)| {
        let weight = within(raw.weight, -100.0, 100.0, &child(&child(&preferred, at), "weight"), problems);
        (LabelRule { label: raw.label.clone(), values: raw.values.clone() }, weight)
    });
    Eligibility {
        required_labels: required_labels.collect(),
        preferred_labels: preferred_labels.collect(),
        states,
        roles: Roles::of(&roles),
    }
}

/// What the names in field `{what}s` stand for.
fn named<T: Copy, const N: usize>(
    names: &[String],
    what: &str,
    all: [(&str, T); N],
    pointer: &str,
    problems: &mut Problems,
) -> Vec<T> {
    let field = child(pointer, format!("{what}s"));
    let known = all.map(|(name, _)| name).join(", ");
    let find = |(at, name): (usize, &String)| {
        let found = all.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        if found.is_none() {
            problems.error(child(&field, at), format!("no {what} is called `{name}`; there are {known}"));
        }
        found
    };
    names.iter().enumerate().filter_map(find).collect()
}

fn busy(raw: &RawBusy, pointer: &str, problems: &mut Problems) -> Busy {
    let place = child(pointer, "busy");
    let RawBusy { decode_blocks_share, prefill_tokens, prefill_steps, waiting, kv_usage } = raw;
    let mut share = |value: Option<f64>, max: f64, field: &str| {
        value.map(|value| within(value, 0.0, max, &child(&place, field), problems))
    };
    Busy {
        decode_blocks_share: share(*decode_blocks_share, 1e3, "decode_blocks_share"),
        prefill_tokens: *prefill_tokens,
        prefill_steps: share(*prefill_steps, 1e6, "prefill_steps"),
        waiting: *waiting,
        kv_usage: share(*kv_usage, 1.0, "kv_usage"),
    }
}

fn overload(raw: &RawOverload, pointer: &str, problems: &mut Problems) -> Overload {
    let place = child(pointer, "overload");
    let status = raw.status.unwrap_or(503);
    match raw.action {
        RawOverloadAction::Pass => {
            if raw.status.is_some() || raw.retry_after_seconds.is_some() {
                problems.error(&place, "`status` and `retry_after_seconds` belong to action `reject`");
            }
            Overload::Pass
        }
        RawOverloadAction::Reject => {
            if ![503, 429, 529].contains(&status) {
                problems.error(child(&place, "status"), format!("is {status}, must be 503, 429 or 529"));
            }
            Overload::Reject { status, retry_after_seconds: raw.retry_after_seconds.unwrap_or(1) }
        }
    }
}
