//! Traces in the Mooncake format: one JSON object a line with `timestamp` (ms), `input_length`, `output_length` (tokens) and
//! `hash_ids`, one per 512 prompt tokens, where an id names its block and everything before it.

use kv_routing::block::SequenceHash;
use serde::Deserialize;
use thiserror::Error;

/// Tokens one hash id stands for.
pub(super) const BLOCK_TOKENS: u32 = 512;
/// Longest prompt, in tokens.
const MAX_TOKENS: u32 = 16 << 20;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Microseconds after the first.
    pub at_us: u64,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Answer tokens.
    pub output_tokens: u32,
    /// Chain of its full blocks.
    pub chain: Vec<SequenceHash>,
}

/// A line that is no request.
#[derive(Debug, Error)]
#[error("line {line} of the trace: {problem}")]
pub struct TraceError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

#[derive(Deserialize)]
struct RawLine {
    timestamp: u64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

/// Reads a trace; arrivals come `speedup` times as fast as recorded.
///
/// # Errors
/// [`TraceError`] for the first line that is no request, or that comes before the one in front of it.
pub fn parse(text: &str, speedup: f64) -> Result<Vec<Arrival>, TraceError> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut first = None;
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let fail = |problem: String| TraceError { line, problem };
        let raw: RawLine = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        let blocks = raw.input_length.div_ceil(BLOCK_TOKENS) as usize;
        if raw.input_length > MAX_TOKENS || raw.hash_ids.len() != blocks {
            let ids = raw.hash_ids.len();
            return Err(fail(format!("{} tokens need {blocks} hash ids, there are {ids}", raw.input_length)));
        }
        let start = *first.get_or_insert(raw.timestamp);
        let at_ms = raw.timestamp.checked_sub(start).ok_or_else(|| fail("earlier than the first request".into()))?;
        let full = (raw.input_length / BLOCK_TOKENS) as usize;
        let arrival = Arrival {
            at_us: (at_ms as f64 * 1000.0 / speedup) as u64,
            prompt_tokens: raw.input_length,
            output_tokens: raw.output_length.max(1),
            chain: raw.hash_ids.into_iter().take(full).map(SequenceHash).collect(),
        };
        if arrivals.last().is_some_and(|last| last.at_us > arrival.at_us) {
            return Err(fail("earlier than the request before it".into()));
        }
        arrivals.push(arrival);
    }
    Ok(arrivals)
}
