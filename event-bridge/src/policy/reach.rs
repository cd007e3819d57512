//! Rules that can never match, because an earlier rule matches whenever they do.

use kv_routing::policy::document::{HeaderMatch, HeaderTest, Match, Rule};

use super::problem::{Problems, child};

pub(super) fn check(rules: &[Rule], problems: &mut Problems) {
    for (at, rule) in rules.iter().enumerate() {
        let covering = rules.iter().take(at).find(|earlier| covers(&earlier.when, &rule.when));
        if let Some(earlier) = covering {
            let message = format!("never matches: rule `{}` before it matches whenever this one does", earlier.name);
            problems.error(child("/rules", at), message);
        }
    }
}

/// Whether every request that satisfies `narrow` satisfies `wide`.
fn covers(wide: &Match, narrow: &Match) -> bool {
    let Match {
        models,
        adapters,
        headers,
        paths,
        min_prompt_tokens,
        max_prompt_tokens,
        stream,
        min_priority,
        max_priority,
    } = wide;
    let list = |wide: &[String], narrow: &[String]| {
        wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|item| wide.contains(item)))
    };
    list(models, &narrow.models)
        && list(adapters, &narrow.adapters)
        && list(paths, &narrow.paths)
        && headers.iter().all(|wide| narrow.headers.iter().any(|narrow| implies(narrow, wide)))
        && at_least(*min_prompt_tokens, narrow.min_prompt_tokens)
        && at_most(*max_prompt_tokens, narrow.max_prompt_tokens)
        && at_least(*min_priority, narrow.min_priority)
        && at_most(*max_priority, narrow.max_priority)
        && (stream.is_none() || *stream == narrow.stream)
}

fn at_least<T: PartialOrd>(wide: Option<T>, narrow: Option<T>) -> bool {
    wide.is_none_or(|wide| narrow.is_some_and(|narrow| narrow >= wide))
}

fn at_most<T: PartialOrd>(wide: Option<T>, narrow: Option<T>) -> bool {
    wide.is_none_or(|wide| narrow.is_some_and(|narrow| narrow <= wide))
}

fn implies(narrow: &HeaderMatch, wide: &HeaderMatch) -> bool {
    narrow.name == wide.name
        && match (&wide.test, &narrow.test) {
            (HeaderTest::Present, _) => true,
            (HeaderTest::Prefix(prefix), HeaderTest::Prefix(text) | HeaderTest::Exact(text)) => {
                text.starts_with(prefix)
            }
            (HeaderTest::Exact(one), HeaderTest::Exact(other)) => one == other,
            _ => false,
        }
}
