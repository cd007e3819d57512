//! Documents against what they compile to, and against what is said about them.

use kv_routing::policy::document::{Mode, Overload, Roles, SessionKey};
use kv_routing::wire::Role;

use super::*;

fn surroundings() -> Surroundings {
    Surroundings { anything: false, models: ["qwen".into(), "llama".into()].into(), adapters: ["sql".into()].into() }
}

fn compiled(text: &str) -> Compiled {
    compile(text.as_bytes(), &surroundings()).unwrap()
}

fn pointers(text: &str) -> Vec<String> {
    let Refused(problems) = compile(text.as_bytes(), &surroundings()).unwrap_err();
    problems.into_iter().filter(|problem| problem.severity == Severity::Error).map(|problem| problem.pointer).collect()
}

/// A document with one policy `p` of these fields, and these rules.
fn document(policy: &str, rules: &str) -> String {
    format!(r#"{{"version": 1, "policies": {{"p": {{{policy}}}}}, "rules": [{rules}], "default": "p"}}"#)
}

#[test]
fn a_whole_document() {
    let text = r#"{
      "version": 1,
      "policies": {
        "chat": {"mode": "kv", "weights": {"prefill_scale": 2}, "tier": {"host": 0.5}, "temperature": 0.1, "fallbacks": 4,
                 "affinity": {"max_load_ratio": 1.5}, "busy": {"waiting": 8},
                 "overload": {"action": "reject", "status": 429, "retry_after_seconds": 3}, "explain": "header"},
        "sticky": {"mode": "session", "session": {"header": "X-Session-ID", "stickiness": "soft", "ttl_seconds": 60}},
        "custom": {"mode": "kv", "cost": "prefill_scale * prefill_blocks + 4 * waiting"}
      },
      "rules": [
        {"name": "sessions", "when": {"header": [{"name": "X-Session-ID", "present": true}]}, "policy": "sticky"},
        {"when": {"model": ["qwen", "sql"], "prompt_tokens": {"min": 1000}}, "policy": "custom"}
      ],
      "default": "chat"
    }"#;
    let Compiled { rules, warnings } = compiled(text);
    assert_eq!(warnings, []);
    let policy = |name: &str| rules.policies.iter().find(|policy| policy.name == name).unwrap();
    assert_eq!(policy("chat").weights.prefill_scale, 2.0);
    assert_eq!(policy("chat").weights.host_credit, 0.5);
    assert_eq!(policy("chat").overload, Overload::Reject { status: 429, retry_after_seconds: 3 });
    let key = SessionKey::Header("x-session-id".into());
    assert_eq!(policy("sticky").mode, Mode::Session { key, hard: false, ttl_seconds: 60 });
    assert!(policy("custom").cost.is_some());
    assert_eq!(rules.policies[usize::from(rules.default_policy)].name, "chat");
    assert_eq!(rules.policies[usize::from(rules.rules[0].policy)].name, "sticky");
    assert_eq!(rules.rules[1].name, "rule 1");
    assert_eq!(rules.rules[1].when.min_prompt_tokens, Some(1000));
}

#[test]
fn refusals_name_the_field() {
    let policy = |fields: &str| pointers(&document(fields, ""));
    assert_eq!(policy(r#""mode": "kv", "wieghts": {}"#), ["/policies/p/wieghts"]);
    assert_eq!(policy(r#""mode": "fastest""#), ["/policies/p/mode"]);
    assert_eq!(policy(r#""mode": "kv", "temperature": -1"#), ["/policies/p/temperature"]);
    assert_eq!(policy(r#""mode": "kv", "tier": {"host": 2}"#), ["/policies/p/tier/host"]);
    assert_eq!(policy(r#""mode": "kv", "cost": "1 +"#.to_owned().as_str().trim_end()).len(), 1);
    assert_eq!(policy(r#""mode": "kv", "cost": "wating""#), ["/policies/p/cost"]);
    assert_eq!(policy(r#""mode": "session""#), ["/policies/p/session"]);
    assert_eq!(policy(r#""mode": "kv", "session": {"user": true}"#), ["/policies/p/session"]);
    assert_eq!(policy(r#""mode": "direct", "direct": {"header": "a b"}"#), ["/policies/p/direct/header"]);
    assert_eq!(
        policy(r#""mode": "kv", "overload": {"action": "reject", "status": 200}"#),
        ["/policies/p/overload/status"]
    );
    assert_eq!(
        policy(r#""mode": "kv", "eligibility": {"states": ["exact", "so-so"]}"#),
        ["/policies/p/eligibility/states/1"]
    );
    assert_eq!(policy(r#""mode": "kv", "eligibility": {"roles": ["leader"]}"#), ["/policies/p/eligibility/roles/0"]);
    assert_eq!(policy(r#""mode": "kv", "tier": {"shared": 0.5}"#), ["/policies/p/tier/shared"]);
    assert_eq!(policy(r#""mode": "kv", "affinity": {}"#), ["/policies/p/affinity"]);
    assert_eq!(
        policy(r#""mode": "prefix_hash", "prefix_hash": {"load_bound": 0.5}"#),
        ["/policies/p/prefix_hash/load_bound"]
    );
    assert_eq!(
        policy(r#""mode": "kv", "disaggregation": {"prefill_timeout_ms": 0}"#),
        ["/policies/p/disaggregation/prefill_timeout_ms"]
    );
    for field in ["prefill_retries", "decode_retries"] {
        let rules = format!(r#""mode": "kv", "disaggregation": {{"{field}": 9}}"#);
        assert_eq!(policy(&rules), [format!("/policies/p/disaggregation/{field}")]);
    }
    let rule = |rule: &str| pointers(&document(r#""mode": "kv""#, rule));
    assert_eq!(rule(r#"{"policy": "q"}"#), ["/rules/0/policy"]);
    assert_eq!(rule(r#"{"policy": "p", "when": {"model": ["qwen", "gpt"]}}"#), ["/rules/0/when/model/1"]);
    assert_eq!(rule(r#"{"policy": "p", "when": {"header": [{"name": "a"}]}}"#), ["/rules/0/when/header/0"]);
    assert_eq!(
        rule(r#"{"policy": "p", "when": {"prompt_tokens": {"min": 5, "max": 4}}}"#),
        ["/rules/0/when/prompt_tokens"]
    );
    assert_eq!(pointers("{"), [""]);
    assert_eq!(
        pointers(r#"{"version": 2, "policies": {"a/b": {"mode": "kv"}}, "default": "x"}"#),
        ["/version", "/default"]
    );
}

#[test]
fn eligible_roles_are_a_set() {
    let roles =
        |field: &str| compiled(&document(&format!(r#""mode": "kv"{field}"#), "")).rules.policies[0].eligibility.roles;
    assert_eq!(roles(""), Roles::default());
    assert_eq!(roles(r#", "eligibility": {"roles": ["decode", "both"]}"#), Roles::of(&[Role::Both, Role::Decode]));
}

#[test]
fn unreachable_rules_are_refused() {
    let rules = |rules: &str| document(r#""mode": "kv""#, rules);
    let same =
        r#"{"policy": "p", "when": {"stream": true}}, {"policy": "p", "when": {"stream": true, "model": ["qwen"]}}"#;
    assert_eq!(pointers(&rules(same)), ["/rules/1"]);
    let header = r#"{"policy": "p", "when": {"header": [{"name": "t", "prefix": "go"}]}},
                    {"policy": "p", "when": {"header": [{"name": "T", "exact": "gold"}]}}"#;
    assert_eq!(pointers(&rules(header)), ["/rules/1"]);
    let tokens = r#"{"policy": "p", "when": {"prompt_tokens": {"min": 10}}}, {"policy": "p", "when": {"prompt_tokens": {"min": 5}}}"#;
    assert_eq!(compiled(&rules(tokens)).rules.rules.len(), 2);
    let everything = r#"{"policy": "p"}, {"policy": "p", "when": {"stream": true}}"#;
    assert_eq!(pointers(&rules(everything)), ["/rules/1"]);
}

#[test]
fn settings_without_effect_are_warned_about() {
    let warned = |fields: &str| -> Vec<String> {
        compiled(&document(fields, "")).warnings.into_iter().map(|problem| problem.pointer).collect()
    };
    assert_eq!(warned(r#""mode": "round_robin", "temperature": 1"#), ["/policies/p/temperature"]);
    assert_eq!(warned(r#""mode": "kv", "tier": {"device": 0, "host": 0.5}"#), ["/policies/p/tier"]);
    assert_eq!(warned(r#""mode": "kv", "overload": {"action": "reject"}"#), ["/policies/p/overload"]);
    for (fields, pointer) in [
        (r#""mode": "kv", "weights": {"prefill_scale": 0}, "tier": {"host": 1}"#, "/policies/p/tier"),
        (r#""mode": "kv", "weights": {"prefill_scale": 0}, "affinity": {"max_load_ratio": 2}"#, "/policies/p/affinity"),
        (
            r#""mode": "kv", "cost": "1 - waiting", "eligibility": {"preferred_labels": [{"label": "z", "weight": 1}]}"#,
            "/policies/p/eligibility/preferred_labels",
        ),
        (
            r#""mode": "random", "eligibility": {"preferred_labels": [{"label": "z", "weight": 1}]}"#,
            "/policies/p/eligibility/preferred_labels",
        ),
        (r#""mode": "kv", "eligibility": {"roles": ["prefill"]}"#, "/policies/p/eligibility/roles"),
    ] {
        assert_eq!(warned(fields), [pointer], "{fields}");
    }
    let scaled = r#""mode": "kv", "weights": {"prefill_scale": 0}, "tier": {"host": 1}, "cost": "prefill_blocks""#;
    assert_eq!(warned(scaled), Vec::<String>::new(), "the expression weighs prefill itself");
    let path =
        compiled(&document(r#""mode": "kv""#, r#"{"policy": "p", "when": {"path": ["/v1/completions", "/v2/chat"]}}"#));
    assert_eq!(path.warnings[0].pointer, "/rules/0/when/path/1");
    assert!(path.warnings[0].message.contains("/v1/chat/completions"), "{:?}", path.warnings);
    let unused = r#"{"version": 1, "policies": {"a": {"mode": "kv"}, "b": {"mode": "pass"}}, "default": "a"}"#;
    assert_eq!(compiled(unused).warnings[0].pointer, "/policies/b");
}

#[test]
fn the_documented_example_is_accepted() {
    let text = include_bytes!("../../policy.example.json");
    assert_eq!(compile(text, &surroundings()).unwrap().warnings, []);
}
