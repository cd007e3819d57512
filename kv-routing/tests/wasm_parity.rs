//! The pure core gives the same in 32-bit WebAssembly as natively.
//!
//! Each case computes lines of text from fixed inputs and compares them with those in `testdata/parity`. The same
//! tests run natively (`make test-unit`) and under Node (`make test-wasm`), so both sides are held to one set of
//! lines. `UPDATE_PARITY=1 cargo test -p kv-routing --test wasm_parity` writes them anew, natively; look at the diff.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

#[path = "parity/hash.rs"]
mod hash;
#[path = "parity/index.rs"]
mod index;
#[path = "parity/policy.rs"]
mod policy;
#[path = "parity/prompt.rs"]
mod prompt;

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn hashing() {
    compare("hash.txt", &hash::lines(), include_str!("../testdata/parity/hash.txt"));
}

#[test]
fn index_reading() {
    compare("index.txt", &index::lines(), include_str!("../testdata/parity/index.txt"));
}

#[test]
fn routing() {
    compare("policy.txt", &policy::lines(), include_str!("../testdata/parity/policy.txt"));
}

#[test]
fn rendering_and_tokenizing() {
    compare("prompt.txt", &prompt::lines(), include_str!("../testdata/parity/prompt.txt"));
}

fn compare(file: &str, lines: &[String], expected: &str) {
    #[cfg(not(target_family = "wasm"))]
    if std::env::var_os("UPDATE_PARITY").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/parity").join(file);
        return std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    for (number, (line, expected)) in (1..).zip(lines.iter().zip(expected.lines())) {
        assert_eq!(line, expected, "{file}:{number}");
    }
    assert_eq!(lines.len(), expected.lines().count(), "{file} has another number of lines");
}
