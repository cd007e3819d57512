//! Response: learn which host really serves, end the prefill booking at the first byte, read the engine's report.

use kv_routing::wire::UnixMillis;

use super::book::{Predicted, Routed};
use super::{Flow, State, micros, millis};
use crate::counters::Counter;
use crate::host::Host;
use crate::names;
use crate::vm::Vm;

/// Responses with this status or above count as failures of the target.
const FAILURE_STATUS: u32 = 500;
/// Responses with this status or above bear no generation.
const ERROR_STATUS: u32 = 400;

impl Flow {
    pub(super) fn on_response_headers(&mut self, vm: &mut Vm, host: &impl Host) {
        let routed = match &mut self.state {
            State::Routed(routed) => routed,
            State::Passed | State::Left(_) | State::Freeing(_) | State::Over => return,
            // Envoy answered a request that was still held: 413, a timeout. It must not be released any more.
            State::Fresh | State::Reading(..) | State::Preparing(_) | State::Asking(_) | State::Handing(_) => {
                return self.on_done(vm, host);
            }
        };
        follow(vm, host, routed);
        let status = status(host.response_header(":status"));
        if status >= FAILURE_STATUS {
            routed.failed = true;
            if routed.by.may_repeat {
                host.set_response_header(names::AGAIN, b"decode");
            }
            vm.counters.count(host, Counter::Failed);
        }
        if status >= ERROR_STATUS {
            routed.usage = None;
            routed.release_prefill(vm, host, false);
        } else if routed.end_phase(vm, host, Counter::HandoffAcceptUs) {
            vm.counters.count(host, Counter::HandoffStreams);
        }
        // An engine that refuses the client's body has fetched nothing.
        if !(ERROR_STATUS..FAILURE_STATUS).contains(&status)
            && let Some(fetched) = routed.by.unfetched.take()
        {
            fetched.forget(vm);
        }
        if let Some(explanation) = routed.explanation.take() {
            host.set_response_header(names::EXPLANATION, explanation.as_bytes());
        }
    }

    pub(super) fn on_response_body(&mut self, vm: &mut Vm, host: &impl Host, bytes: usize, last: bool) {
        let State::Routed(routed) = &mut self.state else { return };
        if bytes > 0 {
            routed.release_prefill(vm, host, true);
            if let Some(usage) = &mut routed.usage {
                usage.take(host, bytes);
            }
        }
        if last && let Some(cached) = routed.usage.take().and_then(|usage| usage.cached_tokens()) {
            host.set_filter_state(names::CACHED_TOKENS_STATE, cached.to_string().as_bytes());
            vm.counters.add(host, Counter::CachedTokens, cached);
            if let Some(predicted) = routed.predicted {
                vm.counters.count(host, predicted.compare(cached));
            }
        }
    }
}

impl Routed {
    /// The first byte: of an answer, or of an error instead.
    fn release_prefill(&mut self, vm: &mut Vm, host: &impl Host, answered: bool) {
        if !std::mem::replace(&mut self.first_byte, true) {
            let now = millis(host.now_nanos());
            vm.ledger.release_prefill(self.booking);
            self.end_prefill(vm, host);
            if answered {
                self.end_phase(vm, host, Counter::HandoffFirstByteUs);
            }
            self.settle(vm, host, answered, now);
            vm.rows.touch();
            vm.flush_row(host, now);
        }
    }

    /// Nobody waits for the answer to the prefill call any more.
    pub(super) fn end_prefill(&mut self, vm: &mut Vm, host: &impl Host) {
        if let Some(call) = self.prefill.take() {
            if call.is_own() {
                vm.counters.count(host, Counter::HandoffUnheard);
            }
            call.end(vm, false);
        }
    }

    /// Adds up the time since its decode call or since the last phase of it, where the answer is streamed: of any other answer, every byte comes
    /// at the end. Whether it is.
    fn end_phase(&mut self, vm: &Vm, host: &impl Host, counter: Counter) -> bool {
        let Some(began) = self.by.at.as_mut().filter(|_| self.streams) else { return false };
        let began = std::mem::replace(began, host.now_nanos());
        vm.counters.add(host, counter, micros(began, self.by.at.unwrap_or(began)));
        true
    }

    /// Tells what became of the decision, once: who has computed the prompt, if anyone has.
    pub(super) fn settle(&mut self, vm: &mut Vm, host: &impl Host, answered: bool, now: UnixMillis) {
        let Some(pending) = self.pending.take() else { return };
        // Whoever decodes has not computed a prompt that was prefilled elsewhere.
        let by = self.by.at.is_none().then_some(self.target);
        pending.settle(vm, host, &self.pool, by, answered, now);
    }
}

impl Predicted {
    /// Engines compute at least the last token of a prompt, so one that is wholly cached is reported one block short.
    fn compare(self, cached: u32) -> Counter {
        let Self { tokens, block, whole } = self;
        if cached == tokens || (whole && tokens.checked_sub(cached) == Some(block)) {
            Counter::PredictionRight
        } else if cached < tokens {
            Counter::PredictionOver
        } else {
            Counter::PredictionUnder
        }
    }
}

/// Moves the booking when a retry made another host serve.
fn follow(vm: &mut Vm, host: &impl Host, routed: &mut Routed) {
    let Some(address) = host.attribute(&["upstream", "address"]) else { return };
    if address.is_empty() || address == routed.endpoint.as_bytes() {
        return;
    }
    vm.counters.count(host, Counter::Moved);
    vm.ledger.count_failure(routed.target);
    routed.predicted = None;
    let at_address = || routed.pool.targets.iter().filter(|target| target.endpoint.as_bytes() == address);
    let served = at_address().find(|target| target.rank == routed.rank).or_else(|| at_address().next());
    let now = millis(host.now_nanos());
    match served {
        Some(served) => {
            vm.ledger.move_to(routed.booking, served.id);
            vm.note_peak(served.id, now);
            routed.target = served.id;
            routed.endpoint.clone_from(&served.endpoint);
        }
        // Whoever it is, it is not the target.
        None => routed.settle(vm, host, false, now),
    }
    vm.rows.touch();
}

/// The number in a `:status` header; 0 when there is none.
pub(super) fn status(text: Option<Vec<u8>>) -> u32 {
    text.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok()).unwrap_or(0)
}
