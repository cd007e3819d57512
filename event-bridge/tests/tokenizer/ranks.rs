//! Tokenizers compiled from rank files, against what `tiktoken` and `mistral-common` gave (`scripts/record-rank-goldens.py`) and against the
//! Hugging Face library on the same ranks.

use std::fs;
use std::path::Path;

use event_bridge::tokenizer::corpus::{self, generate};
use event_bridge::tokenizer::{BridgeTokenizer, ModelFiles, Origin, Reference, RenderOptions, compare, self_test};
use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::openai::{Endpoint, parse};
use kv_routing::tokens::{HashPlan, Progress, Prompter};
use kv_routing::wire::UnixMillis;
use serde_json::{Value, json};

use crate::models::{compiled, files, prompter};

/// Kimi's class and pattern over Qwen's ranks; no package holds Kimi's own.
fn kimi() -> ModelFiles {
    let dir = tempfile::tempdir().unwrap();
    let ranks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers/qwen_tiktoken/qwen.tiktoken");
    fs::copy(ranks, dir.path().join("tiktoken.model")).expect("run `make setup`, it fetches the tokenizers tests need");
    let token = |content: &str| json!({"content": content, "special": true, "normalized": false, "lstrip": true});
    let config = json!({"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": {
        "151653": token("<|im_end|>"), "151654": token("<|im_user|>"), "151655": token("<|im_middle|>")}});
    fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    ModelFiles::read(dir.path()).unwrap()
}

fn goldens(name: &str, core: &mut Prompter) {
    let lines = include_str!("../data/rank-goldens.jsonl").lines();
    let mut tokens = 0;
    for line in lines {
        let golden: Value = serde_json::from_str(line).unwrap();
        let text = golden["text"].as_str().unwrap();
        let ours: Vec<u32> = core.encode(text, false).iter().map(|token| token.0).collect();
        assert_eq!(json!(ours), golden[name], "{name}: {text:?}");
        tokens += ours.len();
    }
    assert!(tokens > 8_000, "{tokens}");
}

fn library(name: &str, files: &ModelFiles, core: &mut Prompter) {
    let reference = Reference::load(files).unwrap();
    self_test(core, &reference).unwrap_or_else(|difference| panic!("{name}: {difference}"));
    let samples = corpus::texts();
    let texts = (0..1500).map(|number| generate::text(number, &samples)).chain(generate::sweep(64, 61));
    for (number, text) in texts.enumerate() {
        compare(core, &reference, &text, number % 2 == 1)
            .unwrap_or_else(|difference| panic!("{name}, text {number}: {difference}"));
    }
}

#[test]
fn tiktoken() {
    let files = kimi();
    assert_eq!(files.origin, Origin::Tiktoken);
    let mut core = prompter(compiled(&files).bytes, 1 << 20);
    goldens("kimi", &mut core);
    library("kimi", &files, &mut core);
}

/// Kimi's class cuts before the character that makes a run of 25,001.
#[test]
fn long_runs_are_exact_up_to_the_cut() {
    let files = kimi();
    let mut core = prompter(compiled(&files).bytes, 1 << 20);
    let bridge = BridgeTokenizer::load(&files, &RenderOptions::default()).unwrap();
    for (letters, whole) in [(25_000, true), (25_001, false)] {
        let text =
            format!("{} blocks. {} <|im_end|> x", "A line of words.\n\n".repeat(200), &"ab".repeat(letters)[..letters]);
        let body = json!({ "prompt": text }).to_string();
        let request = parse(Endpoint::Completions, body.as_bytes()).unwrap();
        let plan = HashPlan { block_size: BlockSize::new(1).unwrap(), seed: HashSeed::default() };
        let mut preparation = core.begin(&request, plan, UnixMillis(0)).unwrap();
        let prompt = loop {
            if let Progress::Done(prompt) = core.advance(&mut preparation, 1000) {
                break prompt;
            }
        };
        assert_eq!(prompt.exact_tokens == prompt.tokens, whole, "{prompt:?}");
        assert!(prompt.exact_tokens > 100, "{}", prompt.exact_tokens);
        let by_bridge = bridge.tokenize(&request, UnixMillis(0)).unwrap();
        assert_eq!(by_bridge.tokens.len(), prompt.tokens as usize);
        assert_eq!(by_bridge.exact_tokens == prompt.tokens, whole);
    }
}

#[test]
fn tekken() {
    let files = files("tekken");
    assert_eq!(files.origin, Origin::Tekken);
    let compiled = compiled(&files);
    assert!(compiled.report.template_problem.unwrap().to_string().contains("mistral-common"));
    let mut core = prompter(compiled.bytes, 1 << 20);
    goldens("tekken", &mut core);
    assert_eq!(core.encode("", true).iter().map(|token| token.0).collect::<Vec<_>>(), [1]);
    library("tekken", &files, &mut core);
}
