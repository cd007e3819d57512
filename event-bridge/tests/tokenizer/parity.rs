//! Zero differences on the built-in corpus, on generated texts and on a sample of all scalar values. `make test-tokens-full` compares
//! twenty thousand texts and every scalar value.

use event_bridge::tokenizer::corpus::{self, generate};
use event_bridge::tokenizer::{compare, self_test};

use crate::models::load;

/// Compares `step`-th scalar values, for models whose rules differ from all others more of them.
fn check(name: &str, step: usize) {
    let (mut core, reference) = load(name);
    let outcome = self_test(&mut core, &reference).unwrap_or_else(|difference| panic!("{name}: {difference}"));
    assert!(outcome.texts > 200, "{name}: {outcome:?}");
    let samples = corpus::texts();
    let texts = (0..3000).map(|number| generate::text(number, &samples));
    for (number, text) in texts.chain(generate::sweep(64, step)).enumerate() {
        compare(&mut core, &reference, &text, number % 2 == 1)
            .unwrap_or_else(|difference| panic!("{name}, text {number}: {difference}"));
    }
    assert!(core.cache_stats().chunk_hits > 0, "{name}: the cache was not part of it");
}

#[test]
fn qwen2_5() {
    check("qwen2_5", 61);
}

#[test]
fn qwen3() {
    check("qwen3", 7);
}

#[test]
fn llama3_1() {
    check("llama3_1", 31);
}

#[test]
fn deepseek_v3() {
    check("deepseek_v3", 11);
}

#[test]
fn deepseek_v4() {
    check("deepseek_v4", 61);
}

#[test]
fn gptoss() {
    check("gptoss", 11);
}

#[test]
fn gpt4o() {
    check("gpt4o", 61);
}

#[test]
fn gemma3() {
    check("gemma3", 31);
}

#[test]
fn llama2() {
    check("llama2", 31);
}
