//! Document text to rule set, with every problem found on the way.

use std::collections::BTreeSet;

use kv_routing::policy::document::{HeaderMatch, HeaderTest, Match, Rule, RuleSet};

use super::problem::{Problem, Problems, Refused, Severity, child};
use super::raw::{FORMAT, RawDocument, RawHeader, RawMatch, RawRange};
use super::{doubts, reach, resolve};
use crate::config::Config;

/// Largest document, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Most policies, and most rules.
const MAX_ENTRIES: usize = 256;

/// What a document may refer to.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Nothing is known of the pools: every name may be one.
    pub anything: bool,
    /// Model names and aliases of every pool.
    pub models: BTreeSet<String>,
    /// Adapters of every pool.
    pub adapters: BTreeSet<String>,
}

impl Surroundings {
    /// What the pools of a configuration serve.
    pub fn of(config: &Config) -> Self {
        let models = config.pools.iter().flat_map(|pool| pool.models.iter().cloned());
        let adapters = config.pools.iter().flat_map(|pool| pool.adapters.iter().cloned());
        Self { anything: false, models: models.collect(), adapters: adapters.collect() }
    }

    /// Where no pools are known, as in a simulation.
    pub fn anything() -> Self {
        Self { anything: true, ..Self::default() }
    }
}

/// A document that can be put in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// What the filter evaluates.
    pub rules: RuleSet,
    /// What is probably not as meant.
    pub warnings: Vec<Problem>,
}

/// Compiles a document.
///
/// # Errors
/// [`Refused`] with everything that is wrong with it, errors first.
pub fn compile(text: &[u8], surroundings: &Surroundings) -> Result<Compiled, Refused> {
    let raw = read(text)?;
    let mut problems = Problems::default();
    if raw.version != FORMAT {
        problems.error("/version", format!("is {}, this build reads format {FORMAT}", raw.version));
    }
    for (pointer, count) in [("/policies", raw.policies.len()), ("/rules", raw.rules.len())] {
        if count > MAX_ENTRIES {
            problems.error(pointer, format!("has {count} entries, {MAX_ENTRIES} are allowed"));
        }
    }
    let names: Vec<&str> = raw.policies.keys().map(String::as_str).collect();
    let position = |name: &str| names.iter().position(|known| *known == name).and_then(|at| u16::try_from(at).ok());
    let unknown = |name: &str| format!("no policy is called `{name}`; there are {}", names.join(", "));
    let policies = raw
        .policies
        .iter()
        .map(|(name, raw)| resolve::resolve(name, raw, &child("/policies", name), &mut problems))
        .collect();
    let mut rules = Vec::with_capacity(raw.rules.len());
    for (at, rule) in raw.rules.iter().enumerate() {
        let pointer = child("/rules", at);
        let policy = position(&rule.policy).unwrap_or_else(|| {
            problems.error(child(&pointer, "policy"), unknown(&rule.policy));
            0
        });
        let when = conditions(&rule.when, &child(&pointer, "when"), surroundings, &mut problems);
        let name = rule.name.clone().unwrap_or_else(|| format!("rule {at}"));
        rules.push(Rule { name, policy, when });
    }
    let default_policy = position(&raw.default).unwrap_or_else(|| {
        problems.error("/default", unknown(&raw.default));
        0
    });
    reach::check(&rules, &mut problems);
    finish(RuleSet { rules, policies, default_policy }, &names, problems)
}

fn read(text: &[u8]) -> Result<RawDocument, Refused> {
    let refuse = |pointer: String, message: String| {
        let mut problems = Problems::default();
        problems.error(pointer, message);
        Refused(problems.0)
    };
    if text.len() > MAX_BYTES {
        return Err(refuse(String::new(), format!("{} bytes long, {MAX_BYTES} are allowed", text.len())));
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let raw = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| refuse(pointer_of(error.path()), error.inner().to_string()))?;
    json.end().map_err(|error| refuse(String::new(), error.to_string()))?;
    Ok(raw)
}

fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer = child(&pointer, index),
            Segment::Map { key } | Segment::Enum { variant: key } => pointer = child(&pointer, key),
            Segment::Unknown => {}
        }
    }
    pointer
}

fn finish(rules: RuleSet, names: &[&str], problems: Problems) -> Result<Compiled, Refused> {
    let mut problems = problems;
    let used: BTreeSet<u16> = rules.rules.iter().map(|rule| rule.policy).chain([rules.default_policy]).collect();
    for (at, name) in (0_u16..).zip(names) {
        if !used.contains(&at) {
            problems.warning(child("/policies", name), "no rule uses this policy");
        }
    }
    problems.0.sort_by_key(|problem| problem.severity != Severity::Error);
    if problems.0.iter().any(|problem| problem.severity == Severity::Error) {
        Err(Refused(problems.0))
    } else {
        Ok(Compiled { rules, warnings: problems.0 })
    }
}

fn conditions(raw: &RawMatch, pointer: &str, surroundings: &Surroundings, problems: &mut Problems) -> Match {
    let RawMatch { model, adapter, header, path, prompt_tokens, stream, priority } = raw;
    let mut known = |field: &str, names: &[String], all: &BTreeSet<String>, what: &str| {
        for (at, name) in names.iter().enumerate() {
            if !surroundings.anything && !all.contains(name) {
                problems.error(child(&child(pointer, field), at), format!("no pool serves a {what} called `{name}`"));
            }
        }
    };
    let models = &surroundings.models | &surroundings.adapters;
    known("model", model, &models, "model");
    known("adapter", adapter, &surroundings.adapters, "adapter");
    for (at, path) in path.iter().enumerate() {
        let place = child(&child(pointer, "path"), at);
        if !path.starts_with('/') || path.contains('?') {
            problems.error(place, "a path begins with `/` and has no query, as `/v1/chat/completions`");
        } else {
            doubts::check_path(path, &place, problems);
        }
    }
    let headers = header
        .iter()
        .enumerate()
        .filter_map(|(at, header)| header_match(header, &child(&child(pointer, "header"), at), problems))
        .collect();
    let (min_prompt_tokens, max_prompt_tokens) = range(*prompt_tokens, &child(pointer, "prompt_tokens"), problems);
    let (min_priority, max_priority) = range(*priority, &child(pointer, "priority"), problems);
    Match {
        models: model.clone(),
        adapters: adapter.clone(),
        headers,
        paths: path.clone(),
        min_prompt_tokens,
        max_prompt_tokens,
        stream: *stream,
        min_priority,
        max_priority,
    }
}

fn range<T: PartialOrd>(raw: Option<RawRange<T>>, pointer: &str, problems: &mut Problems) -> (Option<T>, Option<T>) {
    let Some(RawRange { min, max }) = raw else {
        return (None, None);
    };
    match (&min, &max) {
        (None, None) => problems.error(pointer, "needs `min` or `max`"),
        (Some(min), Some(max)) if min > max => problems.error(pointer, "`min` is above `max`: nothing can match"),
        _ => {}
    }
    (min, max)
}

fn header_match(raw: &RawHeader, pointer: &str, problems: &mut Problems) -> Option<HeaderMatch> {
    let test = match (&raw.exact, &raw.prefix, raw.present) {
        (Some(text), None, None) => HeaderTest::Exact(text.clone()),
        (None, Some(text), None) => HeaderTest::Prefix(text.clone()),
        (None, None, Some(true)) => HeaderTest::Present,
        _ => {
            problems.error(pointer, "needs exactly one of `exact`, `prefix` and `\"present\": true`");
            return None;
        }
    };
    header_name(&raw.name, &child(pointer, "name"), problems).map(|name| HeaderMatch { name, test })
}

/// Lower-cases a header name; `None`, with a problem, when it is not one.
pub(super) fn header_name(name: &str, pointer: &str, problems: &mut Problems) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.is_empty() && name.bytes().all(fits) {
        return Some(name.to_ascii_lowercase());
    }
    problems.error(pointer, format!("`{name}` is not a header name"));
    None
}
