//! The answer to a prefill call.

use kv_routing::handoff::{HandoffError, PrefillAnswer, decode_body};
use kv_routing::policy::Whole;

use super::{Call, Handing, transfer};
use crate::counters::Counter;
use crate::flow::book::Routed;
use crate::flow::response::status;
use crate::flow::{Flow, Next, State, Unrouted, leave_to_envoy, micros, millis};
use crate::host::{Answer, Host};
use crate::names;
use crate::vm::Vm;

/// What the client is told when prefill fails beside a decode call that was made already.
const FAILED_BESIDE: &[u8] = br#"{"error":{"message":"prefill failed","type":"server_error","param":null,"code":503}}"#;

impl Flow {
    /// The prefill call of a request that waits for it is answered.
    pub(in crate::flow) fn take_prefill(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        answer: Answer,
    ) -> Next {
        let status = answer_status(host, answer);
        if is_failure(status) {
            return self.prefill_failed(vm, host, handing);
        }
        handing.waited_us = count_answer(vm, host, handing.call.as_ref(), status);
        handing.end_call(vm, host, status < 400, false);
        let answered = host.answer_body(answer.body);
        if status >= 400 {
            handing.end(vm, host);
            return self.answer_as_prefill(vm, host, status, &answered);
        }
        match handing.decode_body(&answered) {
            Ok(Some(body)) => self.release_decode(vm, host, handing, Some(body)),
            Ok(None) => {
                vm.counters.count(host, Counter::HandoffFinished);
                self.serve_whole(vm, host, handing, Whole::Finished)
            }
            Err(error) => self.cannot_hand_over(vm, host, handing, &error),
        }
    }

    /// The prefill call of a request that did not wait for it is answered, before anything came of its decode call.
    pub(in crate::flow) fn note_prefill(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut routed: Box<Routed>,
        answer: Answer,
    ) -> Next {
        let status = answer_status(host, answer);
        let Some(call) = routed.prefill.take() else {
            self.state = State::Routed(routed);
            return Next::Answered;
        };
        count_answer(vm, host, Some(&call), status);
        call.end(vm, is_failure(status));
        let computed = is_done(status);
        routed.settle(vm, host, computed, millis(host.now_nanos()));
        if computed {
            self.state = State::Routed(routed);
            return Next::Answered;
        }
        // The decode engine waits for what will never come.
        vm.ledger.end(routed.booking, false);
        if !is_failure(status) {
            let answered = host.answer_body(answer.body);
            return self.answer_as_prefill(vm, host, status, &answered);
        }
        if let Some(prefill) = routed.by.target {
            vm.prefills.note_failure(prefill, millis(host.now_nanos()));
        }
        leave_to_envoy(vm, host, Unrouted::PrefillAnswered);
        self.state = State::Over;
        let mut headers = vec![("content-type", "application/json"), ("retry-after", "1")];
        if routed.by.may_repeat {
            headers.push((names::AGAIN, "prefill"));
        }
        host.reply(503, &headers, FAILED_BESIDE);
        Next::Answered
    }

    /// Answers the client with what the prefill engine said of its request.
    fn answer_as_prefill(&mut self, vm: &Vm, host: &impl Host, status: u32, body: &[u8]) -> Next {
        leave_to_envoy(vm, host, Unrouted::PrefillAnswered);
        self.state = State::Over;
        host.reply(status, &[("content-type", "application/json")], body);
        Next::Answered
    }
}

impl Handing {
    /// The decode call's body; `None` when the prefill engine finished by itself and so handed nothing over.
    pub(super) fn decode_body(&self, answered: &[u8]) -> Result<Option<Vec<u8>>, HandoffError> {
        let answer = PrefillAnswer::read(answered)?;
        if answer.is_complete() {
            return Ok(None);
        }
        let protocol = self.protocol();
        let target = self.prefill_target().ok_or(HandoffError::Unknown("address"))?;
        decode_body(protocol, &self.body, &transfer(&self.asked.pool, target, self.random), Some(&answer))
    }
}

/// Counts what came of a prefill call; returns how many microseconds it took.
pub(super) fn count_answer(vm: &Vm, host: &impl Host, call: Option<&Call>, status: u32) -> u32 {
    let took = call.map_or(0, |call| micros(call.began, host.now_nanos()));
    if is_failure(status) {
        vm.counters.count(host, Counter::HandoffFailed);
    } else if status >= 400 {
        vm.counters.count(host, Counter::HandoffRejected);
    } else {
        vm.counters.count(host, Counter::HandoffPrefills);
        vm.counters.add(host, Counter::HandoffPrefillUs, took);
    }
    took
}

/// 0 for a call that was reset.
pub(super) fn answer_status(host: &impl Host, answer: Answer) -> u32 {
    if answer.headers == 0 { 0 } else { status(host.answer_header(":status")) }
}

/// Whether the engine did what it was asked.
pub(super) fn is_done(status: u32) -> bool {
    (200..400).contains(&status)
}

/// Whether another target might do better: no answer, the engine's fault, too busy, or a model or path that it does not have, which this pool
/// has.
pub(super) fn is_failure(status: u32) -> bool {
    !(200..500).contains(&status) || matches!(status, 404 | 408 | 429)
}
