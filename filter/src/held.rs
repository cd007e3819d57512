//! Requests whose prompt is done in slices, and the ticks that go on with them.
//!
//! Between two slices the thread must get back to its event loop, or every other request on it waits for the whole prompt.
//! Only a timer does that: a shared queue's callback comes sooner, but within the same turn of the loop, before any socket
//! is looked at. So the root context ticks fast while something is held, and slowly otherwise.

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

/// Requests with slices left, each with its context; the one that waits longest comes first.
#[derive(Debug, Default)]
pub struct Held(VecDeque<(u32, Rc<RefCell<Flow>>)>);

impl Held {
    /// Holds a request. In its own context: the ticks that speed up are those of its root context.
    pub fn hold(&mut self, host: &impl Host, context: u32, flow: Rc<RefCell<Flow>>) {
        if self.0.is_empty() {
            host.set_tick_period(SLICE_TICK_MS);
        }
        self.0.push_back((context, flow));
    }

    /// Puts a request with slices left behind the others.
    pub fn put_back(&mut self, context: u32, flow: Rc<RefCell<Flow>>) {
        self.0.push_back((context, flow));
    }

    /// Takes the request that waits longest.
    pub fn take_first(&mut self) -> Option<(u32, Rc<RefCell<Flow>>)> {
        self.0.pop_front()
    }

    /// Lets the request of `context` go, as it is over.
    pub fn drop_context(&mut self, context: u32) {
        self.0.retain(|(held, _)| *held != context);
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Ticks of one root context.
#[derive(Debug, Default)]
pub struct Ticker {
    last: Option<UnixMillis>,
}

impl Ticker {
    /// One tick of the root context `root`: periodic work, one slice, and the period that fits what is left. Of several root contexts
    /// in a VM each corrects its own period, so that one whose listener goes away leaves nothing undone.
    pub fn tick(&mut self, vm: &mut Vm, host: &impl Host, root: u32, now: UnixMillis) {
        let fast = self.last.is_some_and(|last| last.age(now) < u64::from(TICK_MS / 2));
        self.last = Some(now);
        vm.tick(host, now);
        flow::advance_held(vm, host, root);
        match (vm.held.is_empty(), fast) {
            (true, true) => host.set_tick_period(TICK_MS),
            (false, false) => host.set_tick_period(SLICE_TICK_MS),
            _ => {}
        }
    }
}
