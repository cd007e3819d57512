//! Which policy a request gets.

use bincode::{Decode, Encode};

use super::{Policy, RuleSet};

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Rule {
    /// Name shown in explanations.
    pub name: String,
    /// Position in [`RuleSet::policies`].
    pub policy: u16,
    /// All conditions must hold; an empty list is no condition.
    pub when: Match,
}

/// Conditions of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Match {
    /// `model` is one of these.
    pub models: Vec<String>,
    /// The adapter is one of these.
    pub adapters: Vec<String>,
    /// Every one of these holds.
    pub headers: Vec<HeaderMatch>,
    /// The path, without its query, is one of these.
    pub paths: Vec<String>,
    /// Least prompt tokens.
    pub min_prompt_tokens: Option<u32>,
    /// Most prompt tokens.
    pub max_prompt_tokens: Option<u32>,
    /// The answer is, or is not, streamed.
    pub stream: Option<bool>,
    /// Least priority.
    pub min_priority: Option<i64>,
    /// Highest priority.
    pub max_priority: Option<i64>,
}

/// A condition on one request header.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HeaderMatch {
    /// Lower-case name.
    pub name: String,
    /// What its value must be.
    pub test: HeaderTest,
}

/// What a header's value must be.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum HeaderTest {
    /// Exactly this.
    Exact(String),
    /// Something that begins with this.
    Prefix(String),
    /// Anything.
    Present,
}

/// What is known of a request when a policy is chosen.
pub struct Facts<'a> {
    /// `model` as the client sent it.
    pub model: &'a str,
    /// LoRA adapter, when the model is one.
    pub adapter: Option<&'a str>,
    /// Path without its query.
    pub path: &'a str,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Priority; 0 when the client sent none.
    pub priority: i64,
    /// Prompt tokens; `None` before the prompt is tokenized.
    pub prompt_tokens: Option<u32>,
    /// Bytes of a request header, by lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// Outcome of choosing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selection<'a> {
    /// This policy, by this rule (`None`: the default).
    Chosen(&'a Policy, Option<&'a Rule>),
    /// It depends on the number of prompt tokens: tokenize, then ask again.
    NeedsTokens,
}

impl RuleSet {
    /// The policy of a request: that of the first rule whose conditions all hold.
    pub fn select(&self, facts: &Facts<'_>) -> Selection<'_> {
        for rule in &self.rules {
            match rule.when.holds(facts) {
                Some(false) => {}
                None => return Selection::NeedsTokens,
                Some(true) => {
                    if let Some(policy) = self.policies.get(usize::from(rule.policy)) {
                        return Selection::Chosen(policy, Some(rule));
                    }
                }
            }
        }
        match self.policies.get(usize::from(self.default_policy)) {
            Some(policy) => Selection::Chosen(policy, None),
            None => Selection::Chosen(Policy::builtin(), None),
        }
    }
}

impl Match {
    /// Whether all conditions hold; `None` when that depends on a number of tokens not known yet.
    fn holds(&self, facts: &Facts<'_>) -> Option<bool> {
        let one_of = |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        let without_tokens = one_of(&self.models, facts.model)
            && one_of(&self.paths, facts.path)
            && (self.adapters.is_empty() || facts.adapter.is_some_and(|adapter| one_of(&self.adapters, adapter)))
            && self.stream.is_none_or(|stream| stream == facts.stream)
            && self.min_priority.is_none_or(|least| facts.priority >= least)
            && self.max_priority.is_none_or(|most| facts.priority <= most)
            && self.headers.iter().all(|header| header.holds(facts.header));
        if !without_tokens || (self.min_prompt_tokens.is_none() && self.max_prompt_tokens.is_none()) {
            return Some(without_tokens);
        }
        let tokens = facts.prompt_tokens?;
        Some(
            self.min_prompt_tokens.is_none_or(|least| tokens >= least)
                && self.max_prompt_tokens.is_none_or(|most| tokens <= most),
        )
    }
}

impl HeaderMatch {
    fn holds(&self, header: &dyn Fn(&str) -> Option<Vec<u8>>) -> bool {
        let Some(value) = header(&self.name) else {
            return false;
        };
        match &self.test {
            HeaderTest::Exact(text) => value == text.as_bytes(),
            HeaderTest::Prefix(text) => value.starts_with(text.as_bytes()),
            HeaderTest::Present => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, policy: u16, when: Match) -> Rule {
        Rule { name: name.into(), policy, when }
    }

    fn facts<'a>(prompt_tokens: Option<u32>, header: &'a dyn Fn(&str) -> Option<Vec<u8>>) -> Facts<'a> {
        Facts { model: "m", adapter: None, path: "/v1/completions", stream: true, priority: 0, prompt_tokens, header }
    }

    fn chosen(set: &RuleSet, facts: &Facts<'_>) -> String {
        match set.select(facts) {
            Selection::NeedsTokens => "needs tokens".into(),
            Selection::Chosen(policy, _) => policy.name.clone(),
        }
    }

    #[test]
    fn first_match_wins_and_tokens_are_asked_for_only_when_they_matter() {
        let tenant = HeaderMatch { name: "x-tenant".into(), test: HeaderTest::Prefix("gold".into()) };
        let set = RuleSet {
            rules: vec![
                rule("gold", 1, Match { headers: vec![tenant], ..Match::default() }),
                rule(
                    "other model",
                    2,
                    Match { models: vec!["x".into()], min_prompt_tokens: Some(1), ..Match::default() },
                ),
                rule("long", 2, Match { min_prompt_tokens: Some(1000), ..Match::default() }),
                rule("unary", 1, Match { stream: Some(false), ..Match::default() }),
            ],
            policies: vec![Policy::named("a"), Policy::named("b"), Policy::named("c")],
            default_policy: 0,
        };
        let none = |_: &str| None;
        let gold = |name: &str| (name == "x-tenant").then(|| b"gold-7\xff".to_vec());
        assert_eq!(chosen(&set, &facts(None, &gold)), "b");
        assert_eq!(chosen(&set, &facts(None, &none)), "needs tokens");
        assert_eq!(chosen(&set, &facts(Some(1000), &none)), "c");
        assert_eq!(chosen(&set, &facts(Some(999), &none)), "a");
        assert_eq!(chosen(&set, &Facts { stream: false, ..facts(Some(1), &none) }), "b");
    }

    #[test]
    fn adapter_conditions_need_an_adapter() {
        let when = Match { adapters: vec!["lora".into()], ..Match::default() };
        let none = |_: &str| None;
        assert_eq!(when.holds(&facts(None, &none)), Some(false));
        assert_eq!(when.holds(&Facts { adapter: Some("lora"), ..facts(None, &none) }), Some(true));
    }
}
