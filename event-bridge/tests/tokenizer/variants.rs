//! Ways of tokenizing that no packaged tokenizer uses: a real one with another pre-tokenizer, normalizer or added tokens, the library
//! reading the same changed file.

use event_bridge::tokenizer::corpus::{self, generate};
use event_bridge::tokenizer::{ModelFiles, Reference, RenderOptions, compare, compile_files};
use serde_json::{Value, json};

use crate::models::{files, prompter};

/// Patterns of models whose files no package holds; Kimi K2, Qwen 3.5, tekken.
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Compares core and library on a changed tokenizer.
fn check(name: &str, files: &ModelFiles, json: &Value) {
    let changed = ModelFiles { tokenizer: serde_json::to_vec(json).unwrap(), config: None, ..files.clone() };
    let compiled = compile_files(&changed, &RenderOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut core = prompter(compiled.bytes, 1 << 20);
    let reference = Reference::load(&changed).unwrap();
    let samples = corpus::texts();
    let texts = (0..1200).map(|number| generate::text(number, &samples)).chain(generate::sweep(64, 61));
    for (number, text) in corpus::texts().into_iter().chain(texts).enumerate() {
        compare(&mut core, &reference, &text, number % 2 == 1)
            .unwrap_or_else(|difference| panic!("{name}, text {number}: {difference}"));
    }
}

fn read(files: &ModelFiles) -> Value {
    serde_json::from_slice(&files.tokenizer).unwrap()
}

#[test]
fn pre_tokenizers() {
    let files = files("qwen2_5");
    let mut json = read(&files);
    for (name, regex) in [("Kimi", KIMI), ("Qwen 3.5", QWEN3_5), ("tekken", TEKKEN)] {
        json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!(regex);
        json["normalizer"] = Value::Null;
        check(name, &files, &json);
    }
    json["pre_tokenizer"] =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    check("GPT-2", &files, &json);
    json["model"]["ignore_merges"] = json!(true);
    json["pre_tokenizer"]["use_regex"] = json!(false);
    check("no split", &files, &json);
}

#[test]
fn normalizers_of_spaces() {
    let files = files("llama2");
    let mut json = read(&files);
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    json["normalizer"] = spaces;
    check("spaces", &files, &json);
    json["normalizer"] = Value::Null;
    for (scheme, split) in [("never", false), ("first", false)] {
        json["pre_tokenizer"] =
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
        check(scheme, &files, &json);
    }
    json["pre_tokenizer"] = Value::Null;
    check("as it is", &files, &json);
}

#[test]
fn unknown_tokens() {
    let files = files("llama2");
    let mut json = read(&files);
    let vocab = json["model"]["vocab"].as_object_mut().unwrap();
    vocab.retain(|text, _| !(text.starts_with("<0x") && text.ends_with('>')));
    // The library gives ids by the size of the vocabulary only to added tokens; all of them are in it here.
    for (byte_fallback, fuse) in [(false, true), (false, false), (true, true)] {
        json["model"]["byte_fallback"] = json!(byte_fallback);
        json["model"]["fuse_unk"] = json!(fuse);
        check("unknown tokens", &files, &json);
    }
}

#[test]
fn added_tokens() {
    let added = |content: &str, left: bool, right: bool, normalized: bool| json!({"id": 0, "content": content, "single_word": false, "lstrip": left, "rstrip": right, "normalized": normalized, "special": false});
    let odd = [
        added("<think>", true, false, false),
        added("</think>", false, true, false),
        added("<tool_call>", true, true, false),
        added("</tool_call>", false, false, true),
        added("the", false, false, true),
        added("e\u{301}", false, false, true),
        added("中", false, false, true),
    ];
    for model in ["qwen2_5", "llama3_1", "gemma3"] {
        let files = files(model);
        let mut json = read(&files);
        let list = json["added_tokens"].as_array_mut().unwrap();
        list.retain(|token| !odd.iter().any(|odd| odd["content"] == token["content"]));
        // Gemma's runs of line breaks and white-space stripping claim the same text, which is refused.
        list.retain(|token| !token["content"].as_str().unwrap().starts_with(char::is_whitespace));
        list.extend(odd.iter().cloned());
        check(model, &files, &json);
    }
}
