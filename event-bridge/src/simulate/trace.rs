//! Traces: one request a line, either kind in one file.
//!
//! - Mooncake's format: a JSON object with `timestamp` (ms), `input_length`, `output_length` (tokens) and `hash_ids`, one per 512
//!   prompt tokens, where an id names its block and everything before it. `session_id` (text) may name the conversation, and `worker`
//!   (from 0) the engine that the caller wants in mode `direct`.
//! - Our own access log, written under a policy with `"explain": "trace"`: decisions bear time, tokens and hashes. Requests that
//!   were not routed are left out. The log is in the order of ends, and how long answers were it does not say.

use kv_routing::block::SequenceHash;
use kv_routing::policy::TRACE_TOKENS;
use serde::Deserialize;
use thiserror::Error;

use super::conversations;

/// Tokens one hash id stands for.
pub(super) const BLOCK_TOKENS: u32 = TRACE_TOKENS;
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
    /// What names its conversation: the trace, or else the prompts before (see `conversations`).
    pub session: String,
    /// Engine that the caller names.
    pub worker: Option<u16>,
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
    session_id: Option<String>,
    worker: Option<u16>,
}

/// A decision in the access log; one that is none has no tokens.
#[derive(Deserialize)]
struct Logged {
    tokens: Option<u32>,
    trace: Option<RawTrace>,
}

#[derive(Deserialize)]
struct RawTrace {
    timestamp: u64,
    hash_ids: Vec<u64>,
}

/// How a trace is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Arrivals come this many times as fast as recorded.
    pub speedup: f64,
    /// Answer tokens of requests of which the trace does not tell.
    pub answer_tokens: u32,
}

/// Reads a trace.
///
/// # Errors
/// [`TraceError`] for the first line that is no request, or, in Mooncake's format, comes before the one in front of it.
pub fn parse(text: &str, reading: Reading) -> Result<Vec<Arrival>, TraceError> {
    let mut requests: Vec<RawLine> = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let fail = |problem: String| TraceError { line, problem };
        match text.split_once(" kv=") {
            Some((_, decision)) => requests.extend(logged(decision, reading.answer_tokens).map_err(fail)?),
            None => {
                let request = mooncake(text).map_err(fail)?;
                if requests.last().is_some_and(|last| last.timestamp > request.timestamp) {
                    return Err(fail("earlier than the request before it".into()));
                }
                requests.push(request);
            }
        }
    }
    requests.sort_by_key(|request| request.timestamp);
    let first = requests.first().map_or(0, |request| request.timestamp);
    let arrival = |request: RawLine| Arrival {
        at_us: ((request.timestamp - first) as f64 * 1000.0 / reading.speedup) as u64,
        prompt_tokens: request.input_length,
        output_tokens: request.output_length.max(1),
        chain: {
            let full = (request.input_length / BLOCK_TOKENS) as usize;
            request.hash_ids.into_iter().take(full).map(SequenceHash).collect()
        },
        session: request.session_id.unwrap_or_default(),
        worker: request.worker,
    };
    let mut arrivals: Vec<Arrival> = requests.into_iter().map(arrival).collect();
    name_conversations(&mut arrivals);
    Ok(arrivals)
}

/// Names the conversations of a trace that does not.
fn name_conversations(arrivals: &mut [Arrival]) {
    if arrivals.iter().any(|arrival| !arrival.session.is_empty()) {
        return;
    }
    let chains: Vec<&[SequenceHash]> = arrivals.iter().map(|arrival| arrival.chain.as_slice()).collect();
    let numbers = conversations::derive(&chains);
    for (arrival, number) in arrivals.iter_mut().zip(numbers) {
        arrival.session = number.to_string();
    }
}

fn mooncake(text: &str) -> Result<RawLine, String> {
    let request: RawLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (tokens, ids) = (request.input_length, request.hash_ids.len());
    let blocks = tokens.div_ceil(BLOCK_TOKENS) as usize;
    if tokens > MAX_TOKENS || ids != blocks {
        return Err(format!("{tokens} tokens need {blocks} hash ids, there are {ids}"));
    }
    Ok(request)
}

/// The request of a decision; `None` when nothing was routed.
fn logged(decision: &str, answer_tokens: u32) -> Result<Option<RawLine>, String> {
    if decision == "-" {
        return Ok(None);
    }
    let Logged { tokens, trace } = serde_json::from_str(decision).map_err(|error| error.to_string())?;
    let Some(input_length) = tokens else { return Ok(None) };
    let RawTrace { timestamp, hash_ids } =
        trace.ok_or("the decision has no `trace`: its policy has to say `\"explain\": \"trace\"`")?;
    if input_length > MAX_TOKENS {
        return Err(format!("{input_length} tokens are more than a prompt has"));
    }
    let output_length = answer_tokens;
    Ok(Some(RawLine { timestamp, input_length, output_length, hash_ids, session_id: None, worker: None }))
}
