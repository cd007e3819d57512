//! Tokenizer classes that rebuild what `tokenizer.json` says, against what `transformers` gave (`scripts/record-class-goldens.py`).

use std::path::Path;

use event_bridge::tokenizer::{ModelFiles, Reference, RenderOptions, compile_files};
use serde_json::{Map, Value, json};

use crate::models::{folder, prompter};

/// One recorded case: its files, as a folder of that model would have them.
fn files(case: &Value, dir: &Path) -> ModelFiles {
    let source = folder(case["tokenizer"].as_str().unwrap());
    let read =
        |name: &str| std::fs::read(source.join(name)).expect("run `make setup`, it fetches the tokenizers tests need");
    let mut config: Map<String, Value> = serde_json::from_slice(&read("tokenizer_config.json")).unwrap();
    config.extend(case["config"].as_object().unwrap().clone());
    std::fs::write(dir.join("tokenizer.json"), read("tokenizer.json")).unwrap();
    std::fs::write(dir.join("tokenizer_config.json"), json!(config).to_string()).unwrap();
    std::fs::write(dir.join("config.json"), json!({"model_type": case["model_type"]}).to_string()).unwrap();
    ModelFiles::read(dir).unwrap()
}

#[test]
fn classes_that_rebuild_the_tokenizer_are_followed() {
    let mut lines = include_str!("../data/class-goldens.jsonl").lines().peekable();
    let (mut cases, mut rebuilt, mut by_core) = (0, 0, 0);
    while let Some(case) = lines.next() {
        let case: Value = serde_json::from_str(case).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let files = files(&case, dir.path());
        if let Some(class) = &files.rebuilt_as {
            assert_eq!(case["class"], class.as_str(), "{case}");
            rebuilt += 1;
        }
        let reference = Reference::load(&files).unwrap();
        let mut core =
            compile_files(&files, &RenderOptions::default()).ok().map(|compiled| prompter(compiled.bytes, 1 << 20));
        by_core += u32::from(core.is_some());
        while let Some(line) = lines.next_if(|line| line.starts_with("{\"text\"")) {
            let golden: Value = serde_json::from_str(line).unwrap();
            let text = golden["text"].as_str().unwrap();
            let library: Vec<u32> = reference.encode(text, true).unwrap().iter().map(|token| token.0).collect();
            assert_eq!(json!(library), golden["ids"], "{case}: {text:?} by the library");
            let Some(core) = &mut core else { continue };
            let ours: Vec<u32> = core.encode(text, true).iter().map(|token| token.0).collect();
            assert_eq!(json!(ours), golden["ids"], "{case}: {text:?} by the core");
        }
        cases += 1;
    }
    assert_eq!((cases, rebuilt), (18, 10));
    assert!(by_core >= 13, "{by_core} cases by the core");
}
