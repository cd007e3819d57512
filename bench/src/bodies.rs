//! Chat requests of a wanted length.

use e2e::prompt;
use serde_json::json;

use crate::load::UNIQUE_BYTES;

/// Replaced by text that no other request has.
const MARK: &str = "#UNIQUE#";
/// Characters of one token on average, measured with Qwen3's tokenizer on the text made here.
const CHARACTERS_PER_TOKEN: f64 = 6.4;
/// One word in so many is invented, as names and rare words are: a tokenizer that only remembers words must work too.
const INVENTED_ONE_IN: usize = 7;
const WORDS: [&str; 48] = [
    "system", "river", "careful", "window", "number", "market", "letter", "simple", "garden", "travel", "engine",
    "matter", "people", "between", "around", "against", "history", "science", "morning", "evening", "question",
    "answer", "language", "memory", "machine", "network", "traffic", "request", "balance", "prefix", "storage",
    "worker", "cluster", "decision", "pattern", "measure", "weather", "kitchen", "village", "council", "teacher",
    "student", "library", "picture", "summer", "winter", "silver", "golden",
];

/// Where the text of a request differs from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// In its last message: everything before is shared, as in a long conversation or behind a system prompt.
    Tail,
    /// In its first message: nothing is shared.
    Head,
}

/// Bodies and, for each, where to write unique text.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// JSON documents.
    pub bodies: Vec<Vec<u8>>,
    /// Byte offset of [`UNIQUE_BYTES`] bytes to overwrite, one per body.
    pub unique_at: Vec<usize>,
}

/// `count` different conversations of about `tokens` tokens each.
pub fn chats(model: &str, tokens: usize, count: u64, unique: Unique) -> Bodies {
    const { assert!(MARK.len() == UNIQUE_BYTES) };
    let bodies: Vec<Vec<u8>> = (0..count).map(|seed| chat(model, tokens, seed, unique).into_bytes()).collect();
    let unique_at = bodies.iter().map(|body| mark(body)).collect();
    Bodies { bodies, unique_at }
}

fn chat(model: &str, tokens: usize, seed: u64, unique: Unique) -> String {
    let (head, tail) = match unique {
        Unique::Head => (MARK, ""),
        Unique::Tail => ("", MARK),
    };
    let characters = (tokens as f64 * CHARACTERS_PER_TOKEN) as usize;
    let system = format!("{head} You are a careful assistant. {}", words(characters, seed));
    let question = format!("Please go on where we stopped. {tail}");
    json!({"model": model, "messages": [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
    ], "max_tokens": 1})
    .to_string()
}

fn words(characters: usize, seed: u64) -> String {
    let invented = prompt::text(seed, characters / 40 + 1);
    let mut invented = invented.split_whitespace().cycle();
    let mut text = String::with_capacity(characters + 16);
    // A linear congruential generator (Knuth's MMIX constants): the text must differ by seed, nothing more.
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while text.len() < characters {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = (state >> 33) as usize;
        let word =
            if pick.is_multiple_of(INVENTED_ONE_IN) { invented.next() } else { WORDS.get(pick % WORDS.len()).copied() };
        text.push_str(word.expect("there is always a word"));
        text.push_str(if pick.is_multiple_of(17) { ".\n" } else { " " });
    }
    text
}

fn mark(body: &[u8]) -> usize {
    body.windows(MARK.len()).position(|window| window == MARK.as_bytes()).expect("every body has the mark")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_text_is_where_it_should_be() {
        let head = chats("m", 1000, 3, Unique::Head);
        let tail = chats("m", 1000, 3, Unique::Tail);
        for (head, tail) in head.unique_at.iter().zip(&tail.unique_at) {
            assert!(*head < 100 && *tail > 5000, "{head} {tail}");
        }
        assert_ne!(head.bodies[0], head.bodies[1]);
    }
}
