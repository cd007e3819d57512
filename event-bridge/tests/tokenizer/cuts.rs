//! The caches rest on cuts that change nothing. Here the library itself tokenizes both sides of such cuts, and the whole.

use event_bridge::tokenizer::corpus::{self, generate};
use event_bridge::tokenizer::{Reference, compare};
use kv_routing::block::TokenId;
use kv_routing::tokens::Tokenizer;

use crate::models::{compiled, files, load};

/// Texts without added tokens, cut at every place the core would.
fn check(name: &str, at_least: usize) {
    let files = files(name);
    let tokenizer = Tokenizer::load(compiled(&files).bytes).unwrap();
    let reference = Reference::load(&files).unwrap();
    let samples = corpus::texts();
    let encode = |text: &str| -> Vec<TokenId> { reference.encode(text, false).unwrap() };
    let mut cuts = 0;
    for number in 0..700 {
        let text = generate::text(number, &samples).replace(['<', '['], "");
        let whole = encode(&text);
        let places = text.char_indices().map(|(at, _)| at).filter(|at| tokenizer.may_cut(&text, *at));
        let places = places.filter(|at| name != "llama2" || text[*at..].len() > 1 && text[*at..].starts_with(' '));
        for at in places.take(40) {
            let (left, right) = text.split_at(at);
            let parts = [encode(left), encode_behind(&encode, name, right)].concat();
            assert!(parts == whole, "{name}: {left:?} | {right:?}");
            cuts += 1;
        }
    }
    assert!(cuts >= at_least, "{name}: only {cuts} cuts");
}

/// Tokens of a text that does not begin a stretch. Llama 2 puts a `▁` before every stretch; leaving out the space
/// that the text begins with makes the two the same.
fn encode_behind(encode: &dyn Fn(&str) -> Vec<TokenId>, name: &str, text: &str) -> Vec<TokenId> {
    match (name, text.strip_prefix(' ')) {
        ("llama2", Some(rest)) => encode(rest),
        _ => encode(text),
    }
}

#[test]
fn no_cut_changes_the_tokens() {
    for (name, at_least) in [
        ("qwen3", 3000),
        ("llama3_1", 3000),
        ("deepseek_v3", 3000),
        ("gptoss", 3000),
        ("gemma3", 1000),
        ("llama2", 1000),
    ] {
        check(name, at_least);
    }
}

#[test]
fn long_texts_are_cut_and_come_out_whole() {
    let samples = corpus::texts();
    for name in ["qwen2_5", "deepseek_v4", "gpt4o", "gemma3", "llama2"] {
        let (mut core, reference) = load(name);
        for first in [0, 1000, 2000] {
            let text: String = (first..first + 300).map(|number| generate::text(number, &samples)).collect();
            let prose: String = (0..600).map(|_| samples[1].as_str()).chain([text.as_str()]).collect();
            for text in [text.as_str(), &prose] {
                compare(&mut core, &reference, text, true).unwrap_or_else(|difference| panic!("{name}: {difference}"));
            }
        }
        assert!(core.cache_stats().chunk_hits > 50, "{name}: {:?}", core.cache_stats());
    }
}
