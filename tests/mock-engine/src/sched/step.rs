//! What one step computes and what comes out of it.

use super::request::{Output, RequestId};

/// The work of one step.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Step {
    /// Tokens to compute per request, in scheduling order.
    pub scheduled: Vec<(RequestId, usize)>,
    /// Prompt tokens among them (recomputation after a preemption included).
    pub prefill_tokens: usize,
    /// Whether a request takes a decode step.
    pub decodes: bool,
    /// Requests whose blocks are reserved now and whose KV must be fetched from another instance.
    pub loads: Vec<RequestId>,
}

impl Step {
    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }
}

/// One request's token of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emission {
    /// The request.
    pub request: RequestId,
    /// Times it lost its blocks so far.
    pub preemptions: u32,
    /// Its token.
    pub output: Output,
}
