//! Bodies through parsing and rendering, against the prompts that vLLM's own code made of them
//! (`scripts/record-vllm-renderings.py`), and content formats against its own detection.

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::path::{Path, PathBuf};

use kv_routing::openai::{Endpoint, Exactness, PromptInput, parse};
use kv_routing::tokens::template::{ContentFormat, Renderer, TemplateConfig, analysis};
use kv_routing::wire::UnixMillis;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

fn data() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/templates")).to_owned()
}

/// Where the recordings are: other ones can be given.
fn recording(file: &str) -> String {
    let dir = std::env::var_os("VLLM_RENDERINGS").map_or_else(data, PathBuf::from);
    std::fs::read_to_string(dir.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn source(recorded: &Value, name: &str) -> String {
    if let Some(probe) = recorded["probes"][name].as_str() {
        return probe.to_owned();
    }
    std::fs::read_to_string(data().join("sources").join(format!("{name}.jinja"))).unwrap()
}

#[test]
fn content_formats_are_those_vllm_detects() {
    let recorded: Value = serde_json::from_str(&recording("vllm-renderings.json")).unwrap();
    let formats = recorded["content_formats"].as_object().unwrap();
    assert_eq!(formats.len(), 78);
    for (name, expected) in formats {
        let detected = match analysis::content_format(&source(&recorded, name)) {
            ContentFormat::String => "string",
            ContentFormat::Parts => "openai",
        };
        assert_eq!(detected, expected, "{name}");
    }
}

/// What one body becomes.
fn rendered(renderer: &Renderer, line: &str, now: UnixMillis) -> Result<String, String> {
    let (path, body) = line.split_once(' ').unwrap();
    let endpoint = Endpoint::of_path(path).unwrap();
    let request = parse(endpoint, body.as_bytes()).map_err(|error| error.to_string())?;
    if request.exactness != Exactness::Exact {
        return Err(format!("{:?}", request.exactness));
    }
    let PromptInput::Chat(chat) = &request.prompt else { return Err("no messages".to_owned()) };
    renderer.render(chat, now).map(|rendered| rendered.text).map_err(|error| error.to_string())
}

#[test]
fn bodies_become_the_prompts_vllm_makes_of_them() {
    let recorded: Value = serde_json::from_str(&recording("vllm-renderings.json")).unwrap();
    let bodies = recording("vllm-bodies.jsonl");
    let bodies: Vec<&str> = bodies.lines().collect();
    let now = UnixMillis(recorded["now"].as_u64().unwrap());
    let tokens = recorded["special_tokens"].as_object().unwrap().iter();
    let special_tokens: Vec<_> =
        tokens.map(|(name, token)| (name.clone(), token.as_str().unwrap().to_owned())).collect();
    let mut differences = Vec::new();
    let (mut equal, mut refused_by_both, mut refused_by_vllm) = (0, 0, 0);
    for (name, expected) in recorded["templates"].as_object().unwrap() {
        let template = source(&recorded, name);
        let content_format = analysis::content_format(&template);
        let config = TemplateConfig {
            template,
            content_format,
            special_tokens: special_tokens.clone(),
            ..TemplateConfig::default()
        };
        let renderer = Renderer::compile(config).unwrap();
        for (index, body) in bodies.iter().enumerate() {
            match (rendered(&renderer, body, now), expected[index].as_str()) {
                (Ok(text), Some(hash)) if format!("{:032x}", xxh3_128(text.as_bytes())) == hash => equal += 1,
                (Ok(text), Some(_)) => {
                    let dir = data().join("../../../target/vllm-differences").join(name);
                    std::fs::create_dir_all(&dir).unwrap();
                    std::fs::write(dir.join(format!("{index}.txt")), &text).unwrap();
                    differences.push(format!("{name}: body {index}: {body}\n{text}"));
                }
                (Err(error), Some(_)) => differences.push(format!("{name}: body {index}: refused: {error}: {body}")),
                (Err(_), None) => refused_by_both += 1,
                (Ok(_), None) => refused_by_vllm += 1,
            }
        }
    }
    println!(
        "{equal} equal, {} differ, {refused_by_both} refused by both, {refused_by_vllm} by vLLM alone",
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(equal, recorded["renders"].as_u64().unwrap());
}
