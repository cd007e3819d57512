//! Prompts: reproducible text, different for every seed.

use serde_json::{Value, json};

const SYLLABLES: [&str; 32] = [
    "ba", "cor", "del", "en", "fa", "gri", "hu", "is", "jo", "kel", "lam", "mi", "nor", "op", "per", "qua", "ri",
    "sol", "tan", "ul", "ver", "wen", "xi", "yor", "zan", "ther", "ing", "ment", "ion", "ous", "able", "ly",
];

/// `words` invented words.
pub fn text(seed: u64, words: usize) -> String {
    let mut state = seed;
    let mut next = move || {
        // SplitMix64: any seed gives an unrelated sequence.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut text = String::new();
    for _ in 0..words {
        let pick = next();
        for syllable in 0..1 + pick % 3 {
            text.push_str(SYLLABLES[(pick >> (8 + 5 * syllable)) as usize % SYLLABLES.len()]);
        }
        text.push_str(if pick >> 60 == 0 { ".\n" } else { " " });
    }
    text
}

/// A chat request.
pub fn chat(model: &str, messages: &[Value], max_tokens: u32) -> Value {
    json!({"model": model, "messages": messages, "max_tokens": max_tokens})
}

/// One chat message.
pub fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// A chat request with one user message of about `words` words.
pub fn question(model: &str, seed: u64, words: usize) -> Value {
    chat(model, &[message("user", &text(seed, words))], 1)
}

/// A completion request with token ids for a prompt.
pub fn token_ids(model: &str, ids: &[u32], max_tokens: u32) -> Value {
    json!({"model": model, "prompt": ids, "max_tokens": max_tokens})
}
