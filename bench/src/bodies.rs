//! Chat requests of a wanted length.

use e2e::prompt;
use serde_json::json;

use crate::load::UNIQUE_BYTES;

/// Replaced by text that no other request has.
const MARK: &str = "#UNIQUE#";
/// Closer than the chunks in which the filter remembers text.
const MARK_EVERY: usize = 256;
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
    /// In every chunk that a cache could know: nothing is shared but words.
    Throughout,
}

/// Bodies and, for each, where to write unique text.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// JSON documents.
    pub bodies: Vec<Vec<u8>>,
    /// Byte offsets of [`UNIQUE_BYTES`] bytes to overwrite, for each body.
    pub unique_at: Vec<Vec<usize>>,
}

/// `count` different conversations of about `tokens` tokens each.
pub fn chats(model: &str, tokens: usize, count: u64, unique: Unique) -> Bodies {
    const { assert!(MARK.len() == UNIQUE_BYTES) };
    let bodies: Vec<Vec<u8>> = (0..count).map(|seed| chat(model, tokens, seed, unique).into_bytes()).collect();
    let unique_at = bodies.iter().map(|body| marks(body)).collect();
    Bodies { bodies, unique_at }
}

fn chat(model: &str, tokens: usize, seed: u64, unique: Unique) -> String {
    let characters = (tokens as f64 * CHARACTERS_PER_TOKEN) as usize;
    let (system, question) = match unique {
        Unique::Throughout => (words(characters, seed, Some(MARK_EVERY)), ""),
        Unique::Tail => (words(characters, seed, None), MARK),
    };
    json!({"model": model, "messages": [
        {"role": "system", "content": format!("You are a careful assistant. {system}")},
        {"role": "user", "content": format!("Please go on where we stopped. {question}")},
    ], "max_tokens": 1})
    .to_string()
}

fn words(characters: usize, seed: u64, mark_every: Option<usize>) -> String {
    let invented = prompt::text(seed, characters / 40 + 1);
    let mut invented = invented.split_whitespace().cycle();
    let mut text = String::with_capacity(characters + 16);
    let mut next_mark = mark_every.map(|_| 0);
    // A linear congruential generator (Knuth's MMIX constants): the text must differ by seed, nothing more.
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while text.len() < characters {
        if let (Some(at), Some(every)) = (next_mark, mark_every)
            && text.len() >= at
        {
            text.push_str(MARK);
            text.push(' ');
            next_mark = Some(at + every);
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = (state >> 33) as usize;
        let word =
            if pick.is_multiple_of(INVENTED_ONE_IN) { invented.next() } else { WORDS.get(pick % WORDS.len()).copied() };
        text.push_str(word.expect("there is always a word"));
        text.push_str(if pick.is_multiple_of(17) { ".\n" } else { " " });
    }
    text
}

fn marks(body: &[u8]) -> Vec<usize> {
    let places = body.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK.as_bytes());
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "every body has a mark");
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_text_is_where_it_should_be() {
        let throughout = chats("m", 1000, 3, Unique::Throughout);
        let tail = chats("m", 1000, 3, Unique::Tail);
        for (all, tail) in throughout.unique_at.iter().zip(&tail.unique_at) {
            assert!(tail.len() == 1 && tail[0] > 5000, "{tail:?}");
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] < 2 * MARK_EVERY), "{all:?}");
            assert!(all.len() > 20, "{all:?}");
        }
        assert_ne!(throughout.bodies[0], throughout.bodies[1]);
    }
}
