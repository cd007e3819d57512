//! Blocks that a prefill engine holds and that nobody else fetches: the decode target takes them over, for one token.

use std::rc::Rc;

use kv_routing::handoff::release_body;
use kv_routing::policy::{BookingRequest, Checkpoints};
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::answer::{answer_status, is_done};
use super::call::Call;
use super::send::call_engine;
use super::transfer;
use crate::counters::Counter;
use crate::flow::book::book_request;
use crate::flow::{Flow, Headers, Next, State, millis};
use crate::host::{Answer, Host};
use crate::view::Pool;
use crate::vm::Vm;

/// What a decode call was to be, or was.
#[derive(Debug)]
pub(in crate::flow) struct Freeing {
    pub(super) pool: Rc<Pool>,
    pub(super) target: TargetEntry,
    /// Of the client's request.
    pub(super) headers: Headers,
    /// Of the decode call.
    pub(super) body: Vec<u8>,
    pub(super) timeout_ms: u32,
    /// The call for one token.
    pub(super) call: Option<Call>,
}

impl Freeing {
    /// Keeps what a decode call is, should it come to nothing; `None` where too much is kept already.
    pub(super) fn keep(self, vm: &mut Vm) -> Option<Box<Self>> {
        vm.prefills.keep(self.body.len() as u64).then(|| Box::new(self))
    }

    /// The decode call has come to something.
    pub(in crate::flow) fn forget(&self, vm: &mut Vm) {
        vm.prefills.drop_kept(self.body.len() as u64);
    }

    /// Makes the call for one token; returns its number, or `None` when it cannot be made, which is counted.
    pub(super) fn send(&mut self, vm: &mut Vm, host: &impl Host) -> Option<u32> {
        let transfer = transfer(&self.pool, &self.target, 0);
        let manifest = &self.pool.manifest;
        let sent = release_body(manifest.handoff, &self.body, &transfer).ok().and_then(|body| {
            call_engine(host, &self.headers, &manifest.cluster, &self.target, &body, self.timeout_ms).ok()
        });
        let Some(call) = sent else {
            vm.counters.count(host, Counter::HandoffFreeFailed);
            return None;
        };
        let now = host.now_nanos();
        let load = BookingRequest {
            target: self.target.id,
            blocks: 0,
            prefill_tokens: 0,
            checkpoints: Checkpoints::default(),
        };
        let booking = book_request(vm, load, millis(now));
        self.call = Some(Call::begin(vm, booking, self.body.len() as u64, now));
        vm.flush_row(host, millis(now));
        Some(call)
    }

    /// Whether no answer comes any more to its call.
    pub(super) fn is_overdue(&self, now: UnixMillis) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_overdue(self.timeout_ms, now))
    }

    pub(super) fn end(self, vm: &mut Vm, host: &impl Host, done: bool) {
        vm.counters.count(host, if done { Counter::HandoffFreed } else { Counter::HandoffFreeFailed });
        if let Some(call) = self.call {
            call.end(vm, !done);
        }
        vm.flush_row(host, millis(host.now_nanos()));
    }
}

impl Flow {
    /// The root context is called: it makes the call for one token.
    pub(in crate::flow) fn free(&mut self, vm: &mut Vm, host: &impl Host, mut freeing: Box<Freeing>) -> Next {
        match freeing.send(vm, host) {
            Some(call) => {
                self.state = State::Freeing(freeing);
                Next::AwaitAnswer(call)
            }
            None => Next::Answered,
        }
    }

    /// The call for one token is answered.
    pub(in crate::flow) fn take_freed(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        freeing: Freeing,
        answer: Answer,
    ) -> Next {
        freeing.end(vm, host, is_done(answer_status(host, answer)));
        Next::Answered
    }
}
