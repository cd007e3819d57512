//! `docs/POLICY.md` against the parser it describes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Refused, Surroundings, compile, expression};

const PAGE: &str = include_str!("../../../docs/POLICY.md");

/// Every JSON block of the page.
fn examples() -> Vec<Value> {
    let blocks = PAGE.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))).collect()
}

/// A document around an example: a whole one, a policy or a rule.
fn document(example: &Value) -> Value {
    if example.get("version").is_some() {
        example.clone()
    } else if example.get("mode").is_some() {
        json!({"version": 1, "policies": {"p": example}, "default": "p"})
    } else {
        json!({"version": 1, "policies": {"chat": {"mode": "kv"}}, "rules": [example], "default": "chat"})
    }
}

/// The first message about a document that is refused.
fn message(document: &Value) -> String {
    let Refused(problems) = compile(document.to_string().as_bytes(), &Surroundings::anything()).unwrap_err();
    problems[0].message.clone()
}

/// What the parser says it expects instead of something it does not know.
fn expected(message: &str) -> Vec<String> {
    let (_, known) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_example_is_accepted_without_a_warning() {
    let surroundings =
        Surroundings { anything: false, models: ["llama-3".into()].into(), adapters: ["llama-3-sql".into()].into() };
    let examples = examples();
    assert!(examples.len() > 12, "{} examples", examples.len());
    for example in examples {
        match compile(document(&example).to_string().as_bytes(), &surroundings) {
            Ok(compiled) => assert_eq!(compiled.warnings, [], "{example}"),
            Err(refused) => panic!("{refused} in {example}"),
        }
    }
}

#[test]
fn every_mode_has_an_example() {
    let policy = |policy: Value| json!({"version": 1, "policies": {"p": policy}, "default": "p"});
    let modes = expected(&message(&policy(json!({"mode": "?"}))));
    assert_eq!(modes.len(), 9);
    let shown: BTreeSet<String> =
        examples().iter().filter_map(|example| Some(example.get("mode")?.as_str()?.to_owned())).collect();
    for mode in modes {
        assert!(shown.contains(&mode) && PAGE.contains(&format!("### {mode}\n")), "{mode}");
    }
}

#[test]
fn every_field_is_described() {
    let rule = |rule: Value| json!({"version": 1, "policies": {}, "rules": [rule], "default": "p"});
    let when = |when: Value| rule(json!({"policy": "p", "when": when}));
    let policy = |field: &str, value: Value| {
        let policy = json!({"mode": "kv", field: value});
        json!({"version": 1, "policies": {"p": policy}, "default": "p"})
    };
    let unknown = json!({"?": 0});
    let mut documents = vec![
        unknown.clone(),
        rule(unknown.clone()),
        when(unknown.clone()),
        when(json!({"header": [unknown]})),
        when(json!({"priority": unknown})),
        policy("?", json!(0)),
        policy("eligibility", json!({"preferred_labels": [unknown]})),
        policy("disaggregation", json!({"topology": unknown})),
    ];
    for part in [
        "prefix_hash",
        "session",
        "direct",
        "weights",
        "tier",
        "affinity",
        "eligibility",
        "busy",
        "overload",
        "disaggregation",
    ] {
        documents.push(policy(part, unknown.clone()));
    }
    for field in documents.iter().flat_map(|document| expected(&message(document))) {
        assert!(PAGE.contains(&format!("`{field}`")) || PAGE.contains(&format!("`tier.{field}`")), "{field}");
    }
}

#[test]
fn every_variable_is_described() {
    for (name, meaning) in expression::variables() {
        assert!(PAGE.contains(&format!("| `{name}` | {meaning} |\n")), "{name}");
    }
}
