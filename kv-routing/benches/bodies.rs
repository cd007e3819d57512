//! Parsing and rendering of long chat bodies.

#![allow(missing_docs, reason = "criterion's macros")]

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::hint::black_box;

    use criterion::{Criterion, Throughput, criterion_group};
    use kv_routing::openai::{ChatInput, Endpoint, PromptInput, parse};
    use kv_routing::tokens::template::{ContentFormat, Renderer, TemplateConfig};
    use kv_routing::wire::UnixMillis;

    const QWEN3: &str = include_str!("../../tests/data/templates/sources/Qwen-Qwen3-0.6B.jinja");
    const LLAMA3: &str = include_str!("../../tests/data/templates/sources/meta-llama-Llama-3.1-8B-Instruct.jinja");

    /// A conversation of about `bytes` bytes in turns of about 4,000, each made of `sentence`.
    fn conversation(bytes: usize, sentence: &str) -> String {
        let content = sentence.repeat(4000 / sentence.len());
        let turns: Vec<String> = (0..bytes / content.len())
            .map(|turn| {
                let role = if turn % 2 == 0 { "user" } else { "assistant" };
                format!(r#"{{"role": "{role}", "content": "{turn}: {content}"}}"#)
            })
            .collect();
        format!(r#"{{"model": "m", "stream": true, "max_tokens": 512, "messages": [{}]}}"#, turns.join(", "))
    }

    const PROSE: &str = "The reading room holds forty chairs, eleven lamps and one very patient clock. ";
    const CODE: &str = "    if (found) {\\n        return \\\"it is here\\\";\\n    }\\n";
    const CHINESE: &str = "图书馆九点开门，请保持安静。";

    fn parsing(c: &mut Criterion) {
        let mut group = c.benchmark_group("parse");
        for (name, sentence) in [("prose", PROSE), ("code", CODE), ("chinese", CHINESE)] {
            let body = conversation(500_000, sentence);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(name, |b| b.iter(|| parse(Endpoint::ChatCompletions, black_box(body.as_bytes()))));
        }
        let ids: Vec<String> = (0..100_000u32).map(|id| (id * 7919 % 151_000).to_string()).collect();
        let body = format!(r#"{{"model": "m", "prompt": [{}]}}"#, ids.join(", "));
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function("token ids", |b| b.iter(|| parse(Endpoint::Completions, black_box(body.as_bytes()))));
        group.finish();
    }

    fn chat(body: &str) -> Option<Box<ChatInput<'_>>> {
        match parse(Endpoint::ChatCompletions, body.as_bytes()).ok()?.prompt {
            PromptInput::Chat(chat) => Some(chat),
            _ => None,
        }
    }

    fn rendering(c: &mut Criterion) {
        let mut group = c.benchmark_group("render");
        for (name, template) in [("qwen3", QWEN3), ("llama3.1", LLAMA3)] {
            let config = TemplateConfig {
                template: template.to_owned(),
                content_format: ContentFormat::String,
                special_tokens: vec![("bos_token".to_owned(), "<|begin_of_text|>".to_owned())],
                ..TemplateConfig::default()
            };
            let Ok(renderer) = Renderer::compile(config) else { continue };
            for bytes in [4_000, 30_000, 300_000] {
                let body = conversation(bytes, PROSE);
                let Some(chat) = chat(&body) else { continue };
                group.throughput(Throughput::Bytes(body.len() as u64));
                group.bench_function(format!("{name}/{bytes}"), |b| {
                    b.iter(|| renderer.render(black_box(&chat), UnixMillis(1_796_051_160_000)));
                });
            }
        }
        group.finish();
    }

    criterion_group!(benches, parsing, rendering);
}

#[cfg(not(target_family = "wasm"))]
criterion::criterion_main!(native::benches);

#[cfg(target_family = "wasm")]
fn main() {}
