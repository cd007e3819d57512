//! Hostile bodies: nothing panics, and what is JSON and what is not is judged as `serde_json` judges it.

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use kv_routing::openai::json::{JsonProblem, MAX_DEPTH, to_value};
use kv_routing::openai::value::Float;
use kv_routing::openai::{BodyError, Endpoint, parse};
use minijinja::value::ValueKind;
use proptest::prelude::*;
use serde_json::Value;

/// Bodies to start from, each using most of what its endpoint has.
const SEEDS: [&str; 7] = [
    r#"{"model":"m","messages":[{"role":"system","content":"a\u00e9\n"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:x"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"c"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"stream":true,"max_tokens":5}"#,
    r#"{"model":"m","prompt":["a","b"],"max_tokens":16,"n":2,"cache_salt":"s","priority":-1,"temperature":0.5e-1}"#,
    r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}],"instructions":"i","tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"}}"#,
    r#"{"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","data":"AA=="}}]},{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"tool_use","id":"t","name":"f","input":{}}]}],"tools":[{"name":"f","input_schema":{}}],"thinking":{"type":"disabled"},"max_tokens":3}"#,
    r#"{"model":"m","input":[[1,2,3],[4]],"encoding_format":"float"}"#,
    r#"{"text":"a","input_ids":[1,2],"sampling_params":{"max_new_tokens":4,"n":1},"image_data":null}"#,
    r#"{"model":"m","token_ids":[1,2,3],"sampling_params":{"max_tokens":3},"features":null}"#,
];

/// Whether a text has something on which Python, and so this reader, differs from `serde_json` on purpose: `NaN` and
/// `Infinity`, numbers beyond 64 bits, a byte order mark, bounds.
fn differs_on_purpose(text: &[u8], problem: Option<JsonProblem>) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    let long_number = text.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 15);
    let big_exponent = text.windows(2).enumerate().any(|(at, pair)| {
        matches!(pair[0], b'e' | b'E')
            && text[at..].iter().skip(1).take(4).filter(|byte| byte.is_ascii_digit()).count() > 2
    });
    has(b"NaN")
        || has(b"Infinity")
        || long_number
        || big_exponent
        || text.starts_with("\u{feff}".as_bytes())
        || matches!(problem, Some(JsonProblem::Depth | JsonProblem::Values))
}

/// The same value, dict order included.
fn same(ours: &minijinja::Value, theirs: &Value) -> bool {
    match theirs {
        Value::Null => ours.is_none(),
        Value::Bool(value) => ours.kind() == ValueKind::Bool && ours.is_true() == *value,
        Value::Number(number) => match (number.as_i64(), Float::of(ours)) {
            (Some(integer), None) => ours.as_i64() == Some(integer),
            // `serde_json` may be one digit off in the last place.
            (None, Some(float)) => number.as_f64().is_some_and(|theirs| (theirs - float).abs() <= float.abs() * 1e-15),
            // `serde_json` makes a float of a negative zero, Python the integer.
            (None, None) => ours.as_i64() == Some(0) && number.as_f64() == Some(0.0),
            _ => false,
        },
        Value::String(text) => ours.as_str() == Some(text),
        Value::Array(items) => {
            ours.kind() == ValueKind::Seq
                && ours.len() == Some(items.len())
                && ours.try_iter().unwrap().zip(items).all(|(ours, theirs)| same(&ours, theirs))
        }
        Value::Object(fields) => {
            let pairs: Vec<_> =
                ours.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect();
            ours.kind() == ValueKind::Map
                && pairs.len() == fields.len()
                && pairs
                    .iter()
                    .zip(fields)
                    .all(|((key, value), (name, theirs))| key.as_str() == Some(name) && same(value, theirs))
        }
    }
}

fn agrees(text: &[u8]) -> Result<(), TestCaseError> {
    let ours = to_value(text);
    let theirs = serde_json::from_slice::<Value>(text);
    if differs_on_purpose(text, ours.as_ref().err().map(|error| error.problem)) {
        return Ok(());
    }
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => prop_assert!(same(ours, theirs), "{ours:?} and {theirs}"),
        (Err(_), Err(_)) => {}
        _ => prop_assert!(false, "{:?}: ours {ours:?}, serde_json {theirs:?}", String::from_utf8_lossy(text)),
    }
    Ok(())
}

/// A value passed over is judged like one that is kept, except for what only a kept one needs.
fn skips_what_it_reads(text: &[u8]) -> Result<(), TestCaseError> {
    let body = [br#"{"unknown": "#, text, b"}"].concat();
    let skipped = parse(Endpoint::Completions, &body);
    let read = to_value(&body);
    let kept_only = |problem| matches!(problem, JsonProblem::Surrogate | JsonProblem::Number | JsonProblem::Values);
    match (&skipped, &read) {
        (Ok(_), Err(error)) if kept_only(error.problem) => {}
        // What follows may be fields of the body itself, when `text` closes the object.
        (Err(BodyError::Field { .. }), Ok(_)) => {}
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
        _ => prop_assert!(false, "{:?}: skipped {skipped:?}, read {read:?}", String::from_utf8_lossy(text)),
    }
    Ok(())
}

/// Bytes that matter to JSON more often than others.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => "[\\[\\]{}:,\"\\\\ \n0-9.eE+-]".prop_map(String::into_bytes),
        2 => prop::sample::select(vec![
            "true", "false", "null", "NaN", "\\ud800", "\\udc00", "\\u00e9", "\"messages\"", "\"role\"", "\"content\"", "\"model\"",
            "\"prompt\"", "\"input\"", "\"tools\"", "[[[[", "]]]]", "{\"a\":", "1e400", "-0", "99999999999999999999999999999999999999999",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => any::<char>().prop_map(|char| char.to_string().into_bytes()),
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// A seed with a few cuts, insertions and overwritten bytes.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0..4u8, noise());
    (prop::sample::select(SEEDS.to_vec()), prop::collection::vec(edit, 1..5)).prop_map(|(seed, edits)| {
        let mut body = seed.as_bytes().to_vec();
        for (at, kind, bytes) in edits {
            if body.is_empty() {
                break;
            }
            let at = at.index(body.len());
            match kind {
                0 => body.truncate(at),
                1 => drop(body.splice(at..at, bytes)),
                2 => drop(body.splice(at..body.len().min(at + bytes.len()), bytes)),
                _ => drop(body.remove(at)),
            }
        }
        body
    })
}

/// A string of some hundred bytes as it stands in a body: stretches without escapes, and escapes at all distances, some of them wrong.
fn long_string() -> impl Strategy<Value = Vec<u8>> {
    let escapes = vec![
        r"\n",
        r#"\""#,
        r"\\",
        r"\/",
        r"\t",
        r"\r",
        r"\b",
        r"\f",
        r"\u00e9",
        r"\ud83d\ude00",
        r"\\n",
        r#"\\\""#,
        "é",
        "漢",
        "😀",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(escapes).prop_map(|text| text.as_bytes().to_vec()),
        4 => (0..20_usize).prop_map(|length| vec![b'x'; length]),
        3 => (0..150_usize).prop_map(|length| vec![b'y'; length]),
    ];
    let wrong = prop::sample::select(vec!["", "", "", "", r"\x", "\n", "\"", r"\u12g4", r"\ud800", "\u{1}"]);
    let pieces = || prop::collection::vec(piece.clone(), 0..60);
    (pieces(), wrong, pieces(), 0..140_usize).prop_map(|(before, wrong, after, space)| {
        // Space behind it decides how near the end of the body is.
        [b"\"", &*before.concat(), wrong.as_bytes(), &after.concat(), b"\"", &vec![b' '; space]].concat()
    })
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ -~]{0,30}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::vec(("[a-d]{0,2}|\\PC", inner), 0..20)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_is_judged_as_serde_json_judges_it(text in noise()) {
        agrees(&text)?;
        skips_what_it_reads(&text)?;
    }

    #[test]
    fn long_strings_are_read_as_serde_json_reads_them(text in long_string()) {
        agrees(&text)?;
        skips_what_it_reads(&text)?;
    }

    #[test]
    fn no_body_panics(body in prop_oneof![noise(), mutated()]) {
        for endpoint in Endpoint::ALL {
            let _ = parse(endpoint, &body);
        }
        agrees(&body)?;
    }

    #[test]
    fn values_survive_however_they_are_written(value in json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let ours = to_value(text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert!(same(&ours, &value), "{text}");
    }

    #[test]
    fn duplicate_keys_keep_the_first_place_and_the_last_value(keys in prop::collection::vec("[a-f]", 0..60)) {
        let fields: Vec<String> = keys.iter().enumerate().map(|(index, key)| format!("\"{key}\":{index}")).collect();
        agrees(format!("{{{}}}", fields.join(",")).as_bytes())?;
    }
}

#[test]
fn nesting_is_bounded_everywhere() {
    let deep = usize::from(MAX_DEPTH) * 1000;
    for open in ["[", "{\"a\":", "{\"messages\":[{\"role\":\"user\",\"content\":[", "{\"tools\":["] {
        let text = open.repeat(deep);
        for endpoint in Endpoint::ALL {
            assert!(parse(endpoint, text.as_bytes()).is_err());
        }
        for key in ["messages", "tools", "input", "unknown", "chat_template_kwargs"] {
            let body = format!("{{\"{key}\": {text}");
            for endpoint in Endpoint::ALL {
                assert!(parse(endpoint, body.as_bytes()).is_err());
            }
        }
    }
}

#[test]
fn invalid_utf8_is_refused_wherever_it_is() {
    for seed in SEEDS {
        for at in [1, seed.len() / 2, seed.len() - 1] {
            let mut body = seed.as_bytes().to_vec();
            body.insert(at, 0xff);
            for endpoint in Endpoint::ALL {
                assert!(matches!(parse(endpoint, &body), Err(BodyError::Json(_))));
            }
        }
    }
}

#[test]
fn seeds_are_taken_by_their_endpoints() {
    for (endpoint, seed) in Endpoint::ALL.into_iter().zip(SEEDS) {
        let request = parse(endpoint, seed.as_bytes()).unwrap_or_else(|error| panic!("{endpoint:?}: {error}"));
        assert!(!matches!(request.prompt, kv_routing::openai::PromptInput::Absent), "{endpoint:?}");
    }
}
