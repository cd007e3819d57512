//! Token counts of an answer.

use serde_json::{Value, json};

use super::generate::{Api, Generation};
use crate::sched::Output;

/// Counts that grow with the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    completion_tokens: usize,
    cached_tokens: usize,
}

impl Usage {
    /// Counts one token.
    pub(super) fn count(&mut self, output: &Output) {
        self.completion_tokens += 1;
        self.cached_tokens = output.cached_tokens;
    }

    /// The `usage` object. Like vLLM, the cached tokens are those of the last answer counted, and only chat says how
    /// many prompt tokens were newly cached.
    pub(super) fn to_json(&self, generation: &Generation, block_size: usize) -> Value {
        let prompt_tokens: usize = generation.prompts.iter().map(Vec::len).sum();
        let created = match generation.api {
            Api::Chat => json!((prompt_tokens / block_size * block_size).saturating_sub(self.cached_tokens)),
            Api::Completion => Value::Null,
        };
        json!({
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "created_cache_tokens": created,
                "multimodal_tokens": null,
            },
            "completion_tokens_details": null,
        })
    }
}
