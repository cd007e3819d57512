//! The published `tokenizers` crate on the same text.

use std::time::Instant;

use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::core::nanos;
use crate::memory;

/// A tokenizer of the library.
pub(crate) struct Reference(Tokenizer);

impl Reference {
    pub(crate) fn load(place: &mut Option<Self>, file: &[u8]) -> Value {
        *place = None;
        let began = Instant::now();
        let tokenizer = Tokenizer::from_bytes(file).expect("a tokenizer.json");
        let nanos = nanos(began.elapsed());
        *place = Some(Self(tokenizer));
        json!({"nanos": nanos, "memory": memory()})
    }

    pub(crate) fn text(&self, text: &str) -> Value {
        let began = Instant::now();
        let tokens = self.encode(text).len();
        json!({"nanos": nanos(began.elapsed()), "tokens": tokens, "memory": memory()})
    }

    pub(crate) fn ids(&self, text: &str) -> Value {
        json!({"ids": self.encode(text)})
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode_fast(text, false).expect("tokens").get_ids().to_vec()
    }
}
