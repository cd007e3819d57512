//! Requests that wait: for the next turn of their prompt, for their root context, or for the answer to an HTTP call; and the ticks that
//! go on with the first.
//!
//! Between two turns the thread must get back to its event loop, or every other request on it waits for the whole prompt.
//! Only a timer does that: a shared queue's callback comes sooner, but within the same turn of the loop, before any socket
//! is looked at. So the root context ticks fast while something is held or a load row is late, and slowly otherwise.
//!
//! The SDK gives the answer to an HTTP call to the context whose callback made it, and drops it when that context is gone. A call whose
//! answer is wanted even if the client leaves is therefore made by the root context, which a shared queue calls at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use kv_routing::wire::UnixMillis;

use crate::flow::{self, Flow};
use crate::host::{Host, HostError};
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
    /// To go on in the callback of their root context, which comes first.
    rooted: Vec<(u32, u32, Rc<RefCell<Flow>>)>,
    /// The root context that was called last, and the shared queue that calls it.
    queue: Option<(u32, u32)>,
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

    /// Has Envoy call the root context `root` soon. In a context that belongs to it; no other VM uses a queue named `queue`.
    ///
    /// # Errors
    /// [`HostError`] when Envoy refuses.
    pub fn call_root(&mut self, host: &impl Host, queue: &str, root: u32) -> Result<(), HostError> {
        let number = match self.queue {
            Some((last, number)) if last == root => number,
            // Whichever root context registers it last is called.
            _ => host.register_queue(queue),
        };
        self.queue = Some((root, number));
        host.enqueue(number, &[])
    }

    /// Holds a request until its root context `root` is called.
    pub fn await_root(&mut self, root: u32, context: u32, flow: Rc<RefCell<Flow>>) {
        self.rooted.push((root, context, flow));
    }

    /// Empties the queue, if it is the one that calls root contexts.
    pub fn empty(&self, host: &impl Host, queue: u32) {
        if self.queue.is_some_and(|(_, ours)| ours == queue) {
            while let Ok(Some(_)) = host.dequeue(queue) {}
        }
    }

    /// Takes a request that waits for the root context `root`.
    pub fn take_rooted(&mut self, root: u32) -> Option<(u32, Rc<RefCell<Flow>>)> {
        let at = self.rooted.iter().position(|(of, _, _)| *of == root)?;
        let (_, context, flow) = self.rooted.remove(at);
        Some((context, flow))
    }

    /// Lets the request of `context` go, as it is over; but not its HTTP call if that `goes_on`.
    pub fn drop_context(&mut self, context: u32, goes_on: bool) {
        self.sliced.retain(|(held, _)| *held != context);
        self.rooted.retain(|(_, held, _)| *held != context);
        self.calling.retain(|calling| goes_on || calling.context != context);
    }

    /// Takes a request whose client has left and whose call Envoy has forgotten.
    pub fn take_lost(&mut self, now: UnixMillis) -> Option<Rc<RefCell<Flow>>> {
        let is_lost = |calling: &Calling| calling.flow.try_borrow().is_ok_and(|flow| flow.is_lost(now));
        let at = self.calling.iter().position(is_lost)?;
        Some(self.calling.swap_remove(at).flow)
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

    /// Bytes of the prompts that have slices left.
    pub fn bytes(&self) -> u64 {
        self.sliced.iter().filter_map(|(_, flow)| Some(flow.try_borrow().ok()?.waiting_bytes())).sum()
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
        flow::end_lost(vm, host, now);
        flow::advance_held(vm, host, root);
        match (vm.held.is_empty(), fast) {
            (true, true) if !vm.rows.is_late() => host.set_tick_period(TICK_MS),
            (false, false) => host.set_tick_period(SLICE_TICK_MS),
            _ => {}
        }
    }
}
