//! Requests that wait: for the next turn of their prompt, or for the answer to an HTTP call; and the ticks that go on with the former.
//!
//! Between two turns the thread must get back to its event loop, or every other request on it waits for the whole prompt.
//! Only a timer does that: a shared queue's callback comes sooner, but within the same turn of the loop, before any socket
//! is looked at. So the root context ticks fast while something is held or a load row is late, and slowly otherwise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use kv_routing::wire::UnixMillis;

use crate::flow::{self, Flow};
use crate::host::Host;
use crate::vm::Vm;

/// Period of a root context's ticks while nothing is held: refreshes the load row, sends decisions, watches the bridge.
pub const TICK_MS: u32 = 100;
/// Period while something is held; a timer's least.
pub const SLICE_TICK_MS: u32 = 1;

/// Requests that wait, each with its context.
#[derive(Debug, Default)]
pub struct Held {
    /// With slices left; the one that waits longest comes first.
    sliced: VecDeque<(u32, Rc<RefCell<Flow>>)>,
    /// With an HTTP call on its way.
    calling: Vec<Calling>,
}

#[derive(Debug)]
struct Calling {
    call: u32,
    context: u32,
    flow: Rc<RefCell<Flow>>,
}

impl Held {
    /// Holds a request for its next turn. In its own context: the ticks that speed up are those of its root context.
    pub fn hold(&mut self, host: &impl Host, context: u32, flow: Rc<RefCell<Flow>>) {
        if self.sliced.is_empty() {
            host.set_tick_period(SLICE_TICK_MS);
        }
        self.sliced.push_back((context, flow));
    }

    /// Takes the request that waits longest.
    pub fn take_first(&mut self) -> Option<(u32, Rc<RefCell<Flow>>)> {
        self.sliced.pop_front()
    }

    /// Lets the request of `context` go, as it is over.
    pub fn drop_context(&mut self, context: u32) {
        self.sliced.retain(|(held, _)| *held != context);
        self.calling.retain(|calling| calling.context != context);
    }

    /// Holds a request for the answer to its call.
    pub fn await_answer(&mut self, call: u32, context: u32, flow: Rc<RefCell<Flow>>) {
        self.calling.push(Calling { call, context, flow });
    }

    /// Takes the request that waits for the answer to `call`.
    pub fn take_answered(&mut self, call: u32) -> Option<(u32, Rc<RefCell<Flow>>)> {
        let at = self.calling.iter().position(|calling| calling.call == call)?;
        let Calling { context, flow, .. } = self.calling.swap_remove(at);
        Some((context, flow))
    }

    /// Whether no request has slices left.
    pub fn is_empty(&self) -> bool {
        self.sliced.is_empty()
    }
}

/// Ticks of one root context.
#[derive(Debug, Default)]
pub struct Ticker {
    last: Option<UnixMillis>,
}

impl Ticker {
    /// One tick of the root context `root`: periodic work, one turn, and the period that fits what is left. Of several root contexts
    /// in a VM each corrects its own period, so that one whose listener goes away leaves nothing undone.
    pub fn tick(&mut self, vm: &mut Vm, host: &impl Host, root: u32, now: UnixMillis) {
        let fast = self.last.is_some_and(|last| last.age(now) < u64::from(TICK_MS / 2));
        self.last = Some(now);
        vm.tick(host, now);
        flow::advance_held(vm, host, root);
        match (vm.held.is_empty(), fast) {
            (true, true) if !vm.rows.is_late() => host.set_tick_period(TICK_MS),
            (false, false) => host.set_tick_period(SLICE_TICK_MS),
            _ => {}
        }
    }
}
