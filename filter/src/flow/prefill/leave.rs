//! A client that leaves while the prefill call of its request is under way.

use std::rc::Rc;

use kv_routing::wire::UnixMillis;

use super::answer::{answer_status, count_answer, is_done, is_failure};
use super::{Freeing, Handing};
use crate::counters::Counter;
use crate::flow::{Flow, Next, State, Unrouted, millis};
use crate::host::{Answer, Host};
use crate::vm::Vm;

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
        matches!(self.state, State::Left(_) | State::Freeing(_))
    }

    /// Whether no answer comes any more to the call of a request whose client has left.
    pub(crate) fn is_lost(&self, now: UnixMillis) -> bool {
        match &self.state {
            State::Left(handing) => {
                let limit = handing.rules.prefill_timeout_ms;
                handing.call.as_ref().is_none_or(|call| call.is_overdue(limit, now))
            }
            State::Freeing(freeing) => freeing.is_overdue(now),
            _ => false,
        }
    }

    /// The prefill call of a request whose client has left is answered.
    pub(in crate::flow) fn take_left(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        answer: Answer,
    ) -> Next {
        let status = answer_status(host, answer);
        let done = is_done(status);
        count_answer(vm, host, handing.call.as_ref(), status);
        handing.end_call(vm, host, done, is_failure(status));
        let body = if done { handing.left_body(vm, host, &host.answer_body(answer.body)) } else { None };
        let freeing = body.and_then(|body| handing.freeing(body));
        handing.end(vm, host);
        vm.flush_row(host, millis(host.now_nanos()));
        match freeing {
            Some(freeing) => self.free(vm, host, Box::new(freeing)),
            None => Next::Answered,
        }
    }

    /// Gives up on a request whose client has left.
    pub(in crate::flow) fn end_left(&mut self, vm: &mut Vm, host: &impl Host) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Left(handing) => {
                vm.counters.count(host, Counter::HandoffFailed);
                vm.counters.count(host, Counter::HandoffFreeFailed);
                handing.end(vm, host);
            }
            State::Freeing(freeing) => freeing.end(vm, host, false),
            other => self.state = other,
        }
    }
}

impl Handing {
    /// The decode call that fetches what the prefill engine holds, by what it `answered`. `None` when it holds nothing.
    fn left_body(&self, vm: &mut Vm, host: &impl Host, answered: &[u8]) -> Option<Vec<u8>> {
        match self.decode_body(answered) {
            Ok(body) => body,
            Err(error) => {
                self.blame(vm, host, &error);
                None
            }
        }
    }

    /// The same with what a call for one token needs besides its `body`.
    pub(super) fn freeing(&mut self, body: Vec<u8>) -> Option<Freeing> {
        Some(Freeing {
            pool: Rc::clone(&self.asked.pool),
            target: self.decode_target()?,
            headers: std::mem::take(&mut self.headers),
            body,
            timeout_ms: self.rules.prefill_timeout_ms,
            call: None,
        })
    }
}
