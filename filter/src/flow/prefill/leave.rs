//! A client that leaves while the prefill call of its request is under way.

use kv_routing::handoff::release_body;
use kv_routing::wire::UnixMillis;

use super::Handing;
use super::answer::{answer_status, is_failure};
use super::call::Call;
use crate::counters::Counter;
use crate::flow::{Flow, Next, State, Unrouted, millis};
use crate::host::{Answer, Host};
use crate::vm::Vm;

/// Milliseconds after the timeout of a call by which Envoy has answered it, if it still knows it.
const ANSWERED_BY_MS: u64 = 10_000;

impl Flow {
    /// The client has left before its decode call was made.
    pub(in crate::flow) fn leave(&mut self, vm: &mut Vm, host: &impl Host, handing: Box<Handing>) {
        vm.counters.count(host, Unrouted::EndedEarly.counter());
        if handing.is_sent {
            self.state = State::Left(handing);
        } else {
            handing.end(vm, host);
            vm.flush_row(host, millis(host.now_nanos()));
        }
    }

    /// Whether its client has left while something is yet to be done for its engines.
    pub(in crate::flow) fn has_left(&self) -> bool {
        matches!(self.state, State::Left(_))
    }

    /// Whether no answer comes any more to the call of a request whose client has left.
    pub(crate) fn is_lost(&self, now: UnixMillis) -> bool {
        matches!(&self.state, State::Left(handing) if handing.is_overdue(now))
    }

    /// The call of a request whose client has left is answered: the prefill call, or the one that frees its blocks.
    pub(in crate::flow) fn take_left(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        answer: Answer,
    ) -> Next {
        let status = answer_status(host, answer);
        let done = (200..400).contains(&status);
        handing.end_call(vm, host, done, is_failure(status));
        if handing.decode_booking.is_none() {
            vm.counters.count(host, if done { Counter::HandoffFreed } else { Counter::HandoffFreeFailed });
        } else if done && let Some(call) = handing.free_blocks(vm, host, &host.answer_body(answer.body)) {
            self.state = State::Left(handing);
            return Next::AwaitAnswer(call);
        }
        handing.end(vm, host);
        vm.flush_row(host, millis(host.now_nanos()));
        Next::Answered
    }

    /// Gives up on a request whose client has left.
    pub(in crate::flow) fn end_left(&mut self, vm: &mut Vm, host: &impl Host) {
        if let State::Left(handing) = std::mem::replace(&mut self.state, State::Over) {
            vm.counters.count(host, Counter::HandoffFreeFailed);
            handing.end(vm, host);
        }
    }
}

impl Handing {
    fn is_overdue(&self, now: UnixMillis) -> bool {
        let limit = u64::from(self.rules.prefill_timeout_ms) + ANSWERED_BY_MS;
        self.call.as_ref().is_none_or(|call| millis(call.began).age(now) > limit)
    }

    /// Has the decode target take over the blocks that the prefill engine holds, by what it `answered`; returns the number of that call.
    /// `None` when it holds none, or when it cannot be, which is counted.
    fn free_blocks(&mut self, vm: &mut Vm, host: &impl Host, answered: &[u8]) -> Option<u32> {
        let body = match self.decode_body(answered) {
            Ok(body) => release_body(&body?).ok()?,
            Err(error) => {
                self.blame(vm, host, &error);
                return None;
            }
        };
        let target = self.decode_target()?;
        let Ok(call) = self.call(host, &self.asked.pool.manifest.cluster, &target, &body) else {
            vm.counters.count(host, Counter::HandoffFreeFailed);
            return None;
        };
        let booking = self.decode_booking.take()?;
        self.call = Some(Call::begin(vm, booking, body.len() as u64, host.now_nanos()));
        Some(call)
    }
}
