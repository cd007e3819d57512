//! The way a prompt goes in the filter.

use std::time::{Duration, Instant};

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::openai::{self, Endpoint};
use kv_routing::tokens::{CacheLimits, HashPlan, Preparation, Progress, Prompter, SLICE_BYTES};
use kv_routing::wire::UnixMillis;
use serde_json::{Value, json};

use crate::memory;

const BLOCK: u32 = 16;

/// A tokenizer with its caches.
pub(crate) struct Core {
    prompter: Prompter,
    plan: HashPlan,
}

impl Core {
    pub(crate) fn load(place: &mut Option<Self>, compiled: Vec<u8>) -> Value {
        // One VM may be asked again: only one copy lives at a time.
        *place = None;
        let began = Instant::now();
        let prompter = Prompter::load(compiled, CacheLimits::default()).expect("a compiled tokenizer");
        let nanos = nanos(began.elapsed());
        let plan = HashPlan { block_size: BlockSize::new(BLOCK).expect("positive"), seed: HashSeed::default() };
        *place = Some(Self { prompter, plan });
        json!({"nanos": nanos, "memory": memory()})
    }

    pub(crate) fn text(&mut self, text: String) -> Value {
        let began = Instant::now();
        let preparation = self.prompter.begin_text(text, false, self.plan);
        self.finish(preparation, began)
    }

    pub(crate) fn chat(&mut self, body: &[u8]) -> Value {
        let began = Instant::now();
        let request = openai::parse(Endpoint::ChatCompletions, body).expect("a chat completion request");
        let parse = began.elapsed();
        let preparation = self.prompter.begin(&request, self.plan, UnixMillis(0)).expect("a prompt");
        let template = began.elapsed() - parse;
        let mut answer = self.finish(preparation, began);
        let parts = [("parse".to_owned(), json!(nanos(parse))), ("template".to_owned(), json!(nanos(template)))];
        answer.as_object_mut().expect("an object").extend(parts);
        answer
    }

    pub(crate) fn ids(&mut self, text: &str) -> Value {
        let ids: Vec<u32> = self.prompter.encode(text, false).into_iter().map(|id| id.0).collect();
        json!({"ids": ids})
    }

    fn finish(&mut self, mut preparation: Preparation, began: Instant) -> Value {
        let mut longest = began.elapsed();
        loop {
            let slice = Instant::now();
            let progress = self.prompter.advance(&mut preparation, SLICE_BYTES);
            longest = longest.max(slice.elapsed());
            if let Progress::Done(prompt) = progress {
                return json!({
                    "nanos": nanos(began.elapsed()), "longest": nanos(longest), "tokens": prompt.tokens, "memory": memory(),
                });
            }
        }
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
