//! Every template of `tests/data/templates` on forty conversations, against what Python's `transformers` rendered
//! (`scripts/record-template-goldens.py`).

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kv_routing::openai::json::to_value;
use kv_routing::tokens::template::{Renderer, TemplateConfig, TemplateError, TemplateInput, analysis};
use kv_routing::wire::UnixMillis;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

/// Templates that are refused when they are loaded, and what for.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("meetkai-functionary-medium-v3.1", "`safe` text in an addition"),
    ("mistralai-Ministral-3-14B-Reasoning-2512", "`safe` text in an addition"),
];

/// Expressions that are refused when a template is loaded.
const UNSUPPORTED_EXPRESSIONS: &[&str] = &[
    "x | batch(2) | list",
    "x | wordcount",
    "x is lower",
    "x is upper",
    "x.isalpha()",
    "x.isalnum()",
    "x.isdigit()",
    "x.isnumeric()",
    "x.isupper()",
    "x.islower()",
];

/// Where minijinja's operators know less of Python's numbers: comparing booleans and very large or small floats, and the
/// remainder of a negative float. No template does such a thing with a value of a request.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    ("x | unique | list", "[None, True, 1.0, 'x']"),
    ("x % 3", "-2.5"),
    ("x < 2", "1e-07"),
    ("x >= 1", "True"),
    ("x >= 1", "1e-07"),
];

fn data() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/templates")).to_owned()
}

/// Where the recordings are: other ones can be given.
fn goldens_dir() -> PathBuf {
    std::env::var_os("TEMPLATE_GOLDENS").map_or_else(data, PathBuf::from)
}

fn json(file: &str) -> Value {
    let text = std::fs::read(goldens_dir().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The conversations as templates get them. Read by our own reader: `serde_json` would make floats of long integers.
fn inputs() -> Vec<(String, TemplateInput)> {
    let text = std::fs::read(goldens_dir().join("conversations.json")).unwrap();
    let cases = to_value(&text).unwrap();
    cases.try_iter().unwrap().map(|case| (case.get_attr("name").unwrap().to_string(), input(&case))).collect()
}

fn input(case: &minijinja::Value) -> TemplateInput {
    let given =
        |name: &str| Some(case.get_attr(name).unwrap()).filter(|value| !value.is_undefined() && !value.is_none());
    let pairs = |value: minijinja::Value| value.as_object().unwrap().try_iter_pairs().unwrap().collect();
    TemplateInput {
        messages: given("messages").unwrap().try_iter().unwrap().collect(),
        tools: given("tools"),
        documents: given("documents"),
        add_generation_prompt: given("add_generation_prompt").is_none_or(|value| value.is_true()),
        continue_final_message: false,
        variables: given("variables").map(pairs).unwrap_or_default(),
    }
}

fn renderer(template: String, special_tokens: &Value) -> Result<Renderer, TemplateError> {
    analysis::check(&template)?;
    let special_tokens = special_tokens.as_object().unwrap().iter();
    Renderer::compile(TemplateConfig {
        template,
        special_tokens: special_tokens
            .map(|(name, token)| (name.clone(), token.as_str().unwrap().to_owned()))
            .collect(),
        normalize_messages: true,
        ..TemplateConfig::default()
    })
}

/// Leaves what we rendered where `--texts` of the recording script can be compared with it.
fn leave_difference(template: &str, case: &str, text: &str) {
    let dir = data().join("../../../target/template-differences").join(template);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("{case}.txt")), text).unwrap();
}

#[test]
fn supported_templates_render_as_in_python_and_the_others_are_refused() {
    let goldens = json("goldens.json");
    let texts = json("texts.json");
    let now = UnixMillis(goldens["now"].as_u64().unwrap());
    let inputs = inputs();
    let mut refused = BTreeMap::new();
    let mut differences = Vec::new();
    let (mut equal, mut refused_by_both, mut refused_by_python) = (0, 0, 0);
    let templates = goldens["templates"].as_object().unwrap();
    for (name, expected) in templates {
        let source = std::fs::read_to_string(data().join("sources").join(format!("{name}.jinja"))).unwrap();
        let renderer = match renderer(source, &goldens["special_tokens"]) {
            Ok(renderer) => renderer,
            Err(error) => {
                refused.insert(name.as_str(), error.to_string());
                continue;
            }
        };
        for (case, input) in &inputs {
            let rendered = renderer.apply(input, now);
            match (rendered, expected[case].as_str()) {
                (Ok(text), Some(hash)) if format!("{:032x}", xxh3_128(text.as_bytes())) == hash => equal += 1,
                (Ok(text), Some(_)) => {
                    leave_difference(name, case, &text);
                    let kept = texts[name][case].as_str().map(|kept| format!(":\n{kept}\n--- but is ---\n{text}"));
                    differences.push(format!("{name}: {case}{}", kept.unwrap_or_default()));
                }
                (Err(error), Some(_)) => differences.push(format!("{name}: {case}: {error}")),
                (Err(_), None) => refused_by_both += 1,
                (Ok(_), None) => refused_by_python += 1,
            }
        }
    }
    println!(
        "{} templates, {} refused; renders: {equal} equal, {} differ, {refused_by_both} refused by both, \
         {refused_by_python} by Python alone",
        templates.len(),
        refused.len(),
        differences.len(),
    );
    for (name, why) in &refused {
        println!("{name}: {why}");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let reasons: Vec<(&str, String)> = refused.into_iter().collect();
    assert_eq!(reasons.len(), UNSUPPORTED.len(), "refused templates");
    for ((name, why), (expected_name, expected_why)) in reasons.iter().zip(UNSUPPORTED) {
        assert_eq!(name, expected_name);
        assert!(why.contains(expected_why), "{name}: {why}");
    }
    assert!(templates.len() - reasons.len() >= 64);
}

/// One expression's results by value; none where Python raises.
#[derive(serde::Deserialize)]
struct Expression(String, Vec<Option<String>>);

#[test]
fn expressions_are_worth_what_they_are_in_python() {
    let recorded = std::fs::read_to_string(data().join("expressions.jsonl")).unwrap();
    let (values, expressions) = recorded.split_once('\n').unwrap();
    let values: Vec<minijinja::Value> = to_value(values.as_bytes()).unwrap().try_iter().unwrap().collect();
    let mut differences = Vec::new();
    let mut known = Vec::new();
    let (mut equal, mut refused) = (0, 0);
    for line in expressions.lines() {
        let Expression(expression, expected) = serde_json::from_str(line).unwrap();
        let template = format!("{{{{ {expression} }}}}");
        let unsupported = UNSUPPORTED_EXPRESSIONS.contains(&&*expression);
        assert_eq!(analysis::check(&template).is_err(), unsupported, "{expression}");
        if unsupported {
            continue;
        }
        let renderer = Renderer::compile(TemplateConfig { template, ..TemplateConfig::default() }).unwrap();
        for (value, expected) in values.iter().zip(&expected) {
            let input = TemplateInput { variables: vec![("x".into(), value.clone())], ..TemplateInput::default() };
            match (renderer.apply(&input, UnixMillis(1_796_054_707_123)), expected) {
                (Ok(text), Some(expected)) if text == *expected => equal += 1,
                // The engine answers with an error, whatever we do.
                (_, None) => {}
                // Such a prompt is not routed by its tokens, which is right for the few there are.
                (Err(_), Some(_)) => refused += 1,
                _ if KNOWN_DIFFERENCES.contains(&(&*expression, &*value.to_string())) => {
                    known.push((expression.clone(), value.to_string()));
                }
                (ours, Some(expected)) => {
                    differences.push(format!("{expression} of {value:?}: {expected:?}, but {ours:?}"))
                }
            }
        }
    }
    println!("{equal} equal, {} differ, {refused} refused, {} known differences", differences.len(), known.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(known.len(), KNOWN_DIFFERENCES.len(), "differences that are gone: {known:?}");
    assert!(equal > 5000 && refused <= 43, "{equal} equal, {refused} refused");
}
