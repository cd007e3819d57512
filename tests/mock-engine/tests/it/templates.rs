//! Prompts against those that a real vLLM 0.32 made of the same chat bodies, for templates of many families.

use std::time::{Duration, SystemTime};

use mock_engine::model::{ChatPrompt, ChatTemplate, ContentFormat};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::support::data_file;

struct Recording {
    renderings: Value,
    /// Chat bodies; `None` for those of other endpoints, which this engine does not serve.
    bodies: Vec<Option<Value>>,
}

impl Recording {
    fn read() -> Self {
        let lines = data_file("templates/vllm-bodies.jsonl");
        Self {
            renderings: serde_json::from_str(&data_file("templates/vllm-renderings.json")).unwrap(),
            bodies: lines
                .lines()
                .map(|line| {
                    let (path, body) = line.split_once(' ').unwrap();
                    (path == "/v1/chat/completions").then(|| serde_json::from_str(body).unwrap())
                })
                .collect(),
        }
    }

    fn template(&self, name: &str) -> ChatTemplate {
        let source = match self.renderings["probes"][name].as_str() {
            Some(probe) => probe.to_owned(),
            None => data_file(&format!("templates/sources/{name}.jinja")),
        };
        ChatTemplate::compile(&source, self.special_tokens()).unwrap()
    }

    fn special_tokens(&self) -> Map<String, Value> {
        self.renderings["special_tokens"].as_object().unwrap().clone()
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.renderings["now"].as_u64().unwrap())
    }
}

#[test]
fn content_formats_are_detected_as_vllm_does() {
    let recording = Recording::read();
    let mut wrong = Vec::new();
    for (name, expected) in recording.renderings["content_formats"].as_object().unwrap() {
        let found = match recording.template(name).content_format() {
            ContentFormat::Text => "string",
            ContentFormat::Parts => "openai",
        };
        if expected != found {
            wrong.push(format!("{name}: {found}, vLLM says {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where this engine is more lenient than Python, or cannot follow it; none of them is a prompt vLLM would serve
/// otherwise.
fn is_known_difference(template: &str, body: &str, vllm_refuses: bool) -> bool {
    // Python cannot loop over an absent list of tools or documents that the template takes for granted.
    let lenient = vllm_refuses
        && (template == "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"
            || (template == "Cohere2MoE" && body.contains("\"documents\"")));
    // Python's JSON has NaN; ours has not, so such arguments count as malformed.
    lenient || body.contains("NaN")
}

#[test]
fn prompts_equal_vllms() {
    let recording = Recording::read();
    let (mut equal, mut refused, mut known) = (0, 0, 0);
    let mut wrong = Vec::new();
    for (name, hashes) in recording.renderings["templates"].as_object().unwrap() {
        let template = recording.template(name);
        for (body, expected) in recording.bodies.iter().zip(hashes.as_array().unwrap()) {
            let Some(body) = body else { continue };
            let rendered = serde_json::from_value::<ChatPrompt>(body.clone())
                .map_err(|error| error.to_string())
                .and_then(|prompt| template.render_chat(&prompt, recording.now()).map_err(|error| error.to_string()));
            let what = match (rendered, expected.as_str()) {
                (Ok(text), Some(hash)) if format!("{:032x}", xxh3_128(text.as_bytes())) == hash => {
                    equal += 1;
                    continue;
                }
                (Err(_), None) => {
                    refused += 1;
                    continue;
                }
                (Ok(text), Some(_)) => format!("rendered\n{text}\n---"),
                (Err(error), Some(_)) => format!("failed: {error}"),
                (Ok(text), None) => format!("vLLM refuses, rendered\n{text}\n---"),
            };
            if is_known_difference(name, &body.to_string(), expected.is_null()) {
                known += 1;
            } else {
                wrong.push(format!("{name}: {body}\n--- {what}"));
            }
        }
    }
    println!("{equal} prompts equal, {refused} refused by both, {known} known differences, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 2_200);
}
