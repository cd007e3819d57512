//! A decision in one line, for access logs, response headers and the command line.

use serde::Serialize;

use super::{Choice, CostParts};
use crate::block::{BlockSize, SequenceHash};
use crate::index::Overlap;
use crate::wire::{TargetEntry, UnixMillis};

/// Why a request went where it went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation<'a> {
    /// Pool it was routed in.
    pub pool: &'a str,
    /// Policy that applied.
    pub policy: &'a str,
    /// Match rule that chose the policy.
    pub rule: &'a str,
    /// Rung of the ladder.
    pub rung: &'static str,
    /// Chosen endpoint.
    pub target: &'a str,
    /// Chosen data-parallel rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// State of its KV source.
    pub state: &'static str,
    /// Prompt tokens; an estimate when there is no chain.
    pub tokens: u32,
    /// Full blocks of the prompt's chain.
    pub blocks: u32,
    /// Who tokenized the prompt, when the filter did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenized_by: Option<&'static str>,
    /// Leading blocks believed on the target.
    pub overlap: OverlapShown,
    /// Cost of the target, in blocks.
    pub cost: CostShown,
    /// Next best target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp<'a>>,
    /// Endpoints named after the chosen one.
    pub fallbacks: Vec<&'a str>,
    /// Where it was prefilled, when not on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffShown<'a>>,
    /// Why a pool with prefill targets did not hand it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<&'static str>,
    /// Microseconds spent, by step.
    pub us: Timings,
    /// What a replay needs, where the policy wants it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// Tokens that one hash of a [`Trace`] stands for, where blocks divide them.
pub const TRACE_TOKENS: u32 = 512;

/// A request as a trace has it, in the words of Mooncake's: when it came, and hashes that equal beginnings share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// Unix milliseconds.
    pub timestamp: u64,
    /// Chained hash at the end of every [`TRACE_TOKENS`] tokens.
    pub hash_ids: Vec<u64>,
}

impl Trace {
    /// Of a prompt with this chain.
    pub fn of(chain: &[SequenceHash], block_size: BlockSize, now: UnixMillis) -> Self {
        let blocks = (TRACE_TOKENS / block_size.tokens()).max(1) as usize;
        Self {
            timestamp: now.0,
            hash_ids: chain.chunks_exact(blocks).filter_map(|part| Some(part.last()?.0)).collect(),
        }
    }
}

/// A prefill on another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HandoffShown<'a> {
    /// Protocol.
    pub protocol: &'static str,
    /// Endpoint that prefilled.
    pub prefill: &'a str,
    /// Its rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Leading blocks believed there.
    pub overlap: OverlapShown,
    /// Microseconds that the decode call waited for it; 0 when both were made at once.
    pub wait_us: u32,
}

/// Overlap by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverlapShown {
    /// In device memory.
    pub device: u32,
    /// Further in host memory.
    pub host: u32,
    /// Further on disk.
    pub disk: u32,
}

/// Cost by part, rounded to hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CostShown {
    /// Prefill after credit.
    pub prefill: f64,
    /// Credit.
    pub credit: f64,
    /// Decode.
    pub decode: f64,
    /// Requests.
    pub requests: f64,
    /// Sum.
    pub total: f64,
}

/// Second best target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunnerUp<'a> {
    /// Its endpoint.
    pub target: &'a str,
    /// Its rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Its cost, in blocks.
    pub cost: f64,
}

/// Microseconds spent on a request, by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// Reading the body, and finding pool and policy.
    pub parse: u32,
    /// Rendering the chat template.
    pub template: u32,
    /// Tokenizing and hashing, which is one pass over the text; of token ids, hashing alone.
    pub tokenize: u32,
    /// Looking its chain up.
    pub lookup: u32,
    /// Pricing and picking.
    pub pick: u32,
}

impl<'a> Explanation<'a> {
    /// Explains `choice` among `targets`; empty strings and zeros stand for what the caller fills in.
    pub fn of(choice: &Choice, targets: &'a [TargetEntry]) -> Self {
        let target = |position: u32| targets.get(position as usize);
        let endpoint = |position: u32| target(position).map_or("", |target| target.endpoint.as_str());
        let runner_up = choice.runner_up.map(|(position, cost)| RunnerUp {
            target: endpoint(position),
            rank: target(position).and_then(|target| target.rank),
            cost: hundredths(cost),
        });
        Self {
            pool: "",
            policy: "",
            rule: "",
            rung: choice.rung.as_str(),
            target: endpoint(choice.target),
            rank: target(choice.target).and_then(|target| target.rank),
            state: choice.state.as_str(),
            tokens: 0,
            blocks: 0,
            tokenized_by: None,
            overlap: choice.overlap.into(),
            cost: choice.cost.into(),
            runner_up,
            fallbacks: choice.order.iter().skip(1).map(|position| endpoint(*position)).collect(),
            handoff: None,
            whole: None,
            us: Timings::default(),
            trace: None,
        }
    }

    /// One line of JSON. Endpoints and names come from configuration, so nothing of a prompt is in it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<Overlap> for OverlapShown {
    fn from(Overlap { device, host, disk }: Overlap) -> Self {
        Self { device, host, disk }
    }
}

impl From<CostParts> for CostShown {
    fn from(CostParts { prefill, credit, decode, requests, total }: CostParts) -> Self {
        Self {
            prefill: hundredths(prefill),
            credit: hundredths(credit),
            decode: hundredths(decode),
            requests: hundredths(requests),
            total: hundredths(total),
        }
    }
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rung;
    use crate::policy::eligible::tests::target;
    use crate::wire::SourceState;

    #[test]
    fn a_decision_fits_one_line_that_parses_back() {
        let mut targets = [target(1), target(2), target(3)];
        targets[1].rank = Some(3);
        let choice = Choice {
            target: 1,
            order: vec![1, 0, 2],
            rung: Rung::Exact,
            state: SourceState::Warm,
            overlap: Overlap { device: 40, host: 2, disk: 0 },
            cost: CostParts { prefill: 1.0 / 3.0, credit: 40.0, decode: 12.0, requests: 0.0, total: 12.0 + 1.0 / 3.0 },
            runner_up: Some((0, 99.999)),
            prefill_tokens: 5,
            others: Vec::new(),
        };
        let explanation = Explanation {
            pool: "qwen",
            policy: "default",
            tokens: 640,
            blocks: 40,
            ..Explanation::of(&choice, &targets)
        };
        assert_eq!(
            explanation.to_json(),
            "{\"pool\":\"qwen\",\"policy\":\"default\",\"rule\":\"\",\"rung\":\"exact\",\"target\":\"10.0.0.2:8000\",\"rank\":3,\
             \"state\":\"warm\",\"tokens\":640,\"blocks\":40,\"overlap\":{\"device\":40,\"host\":2,\"disk\":0},\
             \"cost\":{\"prefill\":0.33,\"credit\":40.0,\"decode\":12.0,\"requests\":0.0,\"total\":12.33},\
             \"runner_up\":{\"target\":\"10.0.0.1:8000\",\"cost\":100.0},\"fallbacks\":[\"10.0.0.1:8000\",\"10.0.0.3:8000\"],\
             \"us\":{\"parse\":0,\"template\":0,\"tokenize\":0,\"lookup\":0,\"pick\":0}}"
        );
    }
}
