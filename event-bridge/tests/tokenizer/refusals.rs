//! What the compiler does not recognise it refuses, and says what it is.

use event_bridge::tokenizer::{CompileError, ModelFiles, Reference, RenderOptions, compile_files};
use serde_json::{Value, json};

/// The smallest tokenizer that compiles: all bytes, one merge.
fn small() -> Value {
    let alphabet = (0..=255_u8).map(|byte| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        0..=0x20 => char::from_u32(0x100 + u32::from(byte)).unwrap(),
        0x7f..=0xa0 => char::from_u32(0x121 + u32::from(byte) - 0x7f).unwrap(),
        0xad => '\u{143}',
    });
    let mut vocab: serde_json::Map<String, Value> =
        alphabet.enumerate().map(|(id, c)| (c.to_string(), json!(id))).collect();
    vocab.insert("ab".to_owned(), json!(256));
    json!({
        "version": "1.0",
        "added_tokens": [{"id": 257, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
    })
}

fn compile(json: &Value) -> Result<(), CompileError> {
    let files = ModelFiles { tokenizer: serde_json::to_vec(json).unwrap(), ..ModelFiles::default() };
    compile_files(&files, &RenderOptions::default()).map(|_| ())
}

fn refused(pointer: &str, value: Value, named: &str) {
    let mut json = small();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[key] = value;
    match compile(&json) {
        Err(CompileError::Unsupported(unsupported)) => {
            assert!(unsupported.to_string().contains(named), "{pointer}: {unsupported}");
        }
        other => panic!("{pointer}: {other:?}"),
    }
}

#[test]
fn the_small_tokenizer_compiles() {
    compile(&small()).unwrap();
}

/// `transformers` adds what only the configuration names when it loads the model.
#[test]
fn special_tokens_that_only_the_configuration_knows_are_refused() {
    for (config, named) in [
        (json!({"pad_token": "[PAD]"}), Some("[PAD]")),
        (json!({"eos_token": {"content": "<eos>", "lstrip": false}}), Some("<eos>")),
        (json!({"additional_special_tokens": ["<x>", "<y>"]}), Some("<y>")),
        (json!({"extra_special_tokens": {"image_token": "<z>"}}), Some("<z>")),
        (json!({"bos_token": "<x>", "eos_token": "ab", "pad_token": null, "model_max_length": 1e30}), None),
    ] {
        let tokenizer = serde_json::to_vec(&small()).unwrap();
        let files = ModelFiles { tokenizer, config: Some(config.to_string().into_bytes()), ..ModelFiles::default() };
        let refused = |text: String| assert!(named.is_some_and(|named| text.contains(named)), "{config}: {text}");
        match (compile_files(&files, &RenderOptions::default()), Reference::load(&files)) {
            (Ok(_), Ok(_)) => assert_eq!(named, None, "{config}"),
            (Err(compile), Err(reference)) => {
                refused(compile.to_string());
                refused(reference.to_string());
            }
            other => panic!("{config}: {other:?}"),
        }
    }
}

/// A folder as Mistral publishes it, which engines read with mistral-common even where there is a `tokenizer.json`.
#[test]
fn folders_that_engines_read_as_mistrals_own_are_told_by_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("tokenizer.json", &serde_json::to_vec(&small()).unwrap());
    write("tokenizer.model.v3", b"");
    ModelFiles::read(folder.path()).unwrap();
    write("consolidated.safetensors", b"");
    assert!(ModelFiles::read(folder.path()).unwrap_err().to_string().contains("mistral-common"));
    let tekken = std::fs::read(crate::models::folder("tekken").join("tekken.json")).unwrap();
    write("tekken.json", &tekken);
    let files = ModelFiles::read(folder.path()).unwrap();
    assert!(files.templates(RenderOptions::default().content_format).is_err());
}

#[test]
fn each_unknown_part_is_named() {
    refused("/normalizer", json!({"type": "NFKC"}), "NFKC");
    refused(
        "/normalizer",
        json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
        "Lowercase",
    );
    refused("/normalizer", json!({"type": "Replace", "pattern": {"Regex": " +"}, "content": "▁"}), "Replace");
    refused("/pre_tokenizer/add_prefix_space", json!(true), "add_prefix_space");
    refused("/pre_tokenizer", json!({"type": "Whitespace"}), "Whitespace");
    let split = |regex: &str, behavior: &str| {
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]})
    };
    refused("/pre_tokenizer", split(r"\p{L}+|\s+", "Isolated"), r"\\p{L}+|\\s+");
    refused("/pre_tokenizer", split(r"\p{N}{1,3}", "MergedWithNext"), "MergedWithNext");
    refused("/post_processor", json!({"type": "BertProcessing", "sep": ["x", 1], "cls": ["y", 2]}), "BertProcessing");
    refused("/model/type", json!("WordPiece"), "WordPiece");
    refused("/model/dropout", json!(0.1), "dropout");
    refused("/model/end_of_word_suffix", json!("</w>"), "end_of_word_suffix");
    refused("/model/merges", json!([["a", "c"]]), "ac");
    refused("/added_tokens/0/single_word", json!(true), "single_word");
    refused("/truncation", json!({"max_length": 10}), "truncation");
}

#[test]
fn a_missing_byte_is_named() {
    let mut json = small();
    json["model"]["vocab"].as_object_mut().unwrap().remove("Ġ");
    let error = compile(&json).unwrap_err().to_string();
    assert!(error.contains("0x20"), "{error}");
}

#[test]
fn damaged_files_are_errors() {
    for bytes in [&b""[..], b"{", b"[]", b"{\"model\": 3}", b"\xff\xfe"] {
        let files = ModelFiles { tokenizer: bytes.to_vec(), ..ModelFiles::default() };
        assert!(matches!(compile_files(&files, &RenderOptions::default()), Err(CompileError::Json { .. })));
    }
}
