//! The Mooncake conversation trace and its prompts.

use std::fs;
use std::time::Duration;

use serde::Deserialize;

use crate::paths;

/// Tokens that one hash id of the trace stands for.
const TOKENS_PER_ID: usize = 512;
/// Token ids are drawn from here: ordinary text of every vocabulary in use, no special tokens.
const FIRST_TOKEN: u32 = 1_000;
const TOKENS: u32 = 90_000;

/// One request of the trace.
#[derive(Clone, Debug, Deserialize)]
pub struct TraceRequest {
    /// Arrival, in milliseconds after the first.
    pub timestamp: u64,
    /// Prompt tokens.
    pub input_length: usize,
    /// Answer tokens.
    pub output_length: u32,
    /// One per 512 prompt tokens, the last block may be partial; equal ids mean equal tokens.
    pub hash_ids: Vec<u64>,
}

impl TraceRequest {
    /// Arrival after the first request, `compression` times as fast as recorded.
    pub fn arrival(&self, compression: f64) -> Duration {
        Duration::from_millis(self.timestamp).div_f64(compression)
    }

    /// The prompt: equal hash ids give equal tokens.
    pub fn prompt(&self) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.hash_ids.iter().flat_map(|id| block(*id)).collect();
        tokens.truncate(self.input_length);
        tokens
    }
}

/// The first `count` requests.
pub fn first(count: usize) -> Vec<TraceRequest> {
    let text = fs::read_to_string(paths::data("mooncake-conversation.jsonl")).expect("trace");
    let requests = text.lines().take(count).map(|line| serde_json::from_str(line).expect("trace line"));
    requests.collect()
}

/// Different tokens over all requests together.
pub fn working_set_tokens(requests: &[TraceRequest]) -> usize {
    let mut ids: Vec<u64> = requests.iter().flat_map(|request| request.hash_ids.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() * TOKENS_PER_ID
}

fn block(id: u64) -> impl Iterator<Item = u32> {
    // SplitMix64 by position: any two ids give unrelated tokens.
    (0..TOKENS_PER_ID as u64).map(move |position| {
        let mixed = (id << 10 | position).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        FIRST_TOKEN + (mixed >> 32) as u32 % TOKENS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_give_equal_tokens_and_lengths_hold() {
        let requests = first(500);
        assert_eq!(requests.len(), 500);
        for request in &requests {
            assert_eq!(request.prompt().len(), request.input_length);
        }
        let (first, second) = (requests[0].prompt(), requests[1].prompt());
        assert_eq!(requests[0].hash_ids[0], requests[1].hash_ids[0]);
        assert_eq!(first[..512], second[..512]);
        assert_ne!(first[512..600], second[512..600]);
    }
}
