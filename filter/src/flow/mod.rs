//! One request through the filter.
//!
//! ```text
//!              other path, or no body
//!   Fresh ───────────────────────────────────────────────────────────▶ Passed
//!     │ inference path: hold the headers                                  ▲
//!     ▼                                                                   │
//!   Reading ── body too long, unreadable, no pool, no target ─────────────┤ released unrouted,
//!     │ last byte, or trailers                                            │ with the reason counted
//!     ▼                                                                   │
//!   Preparing ◀─┐ one turn of a long prompt, then other requests         │
//!     │  │  └───┘   or Asking: the bridge tokenizes what the core cannot    │
//!     │  └── prompt cannot be tokenized ──▶ by prefix of its text         │
//!     ▼                                            │                      │
//!   decide: look up, price, pick ◀─────────────────┘ ─────────────────────┘
//!     │    └── refused by its policy ──▶ answered from here ──▶ Over
//!     │ book, set headers, release (or prefill elsewhere first: see `prefill`)
//!     ▼
//!   Routed ── first byte ends the prefill booking, the end of the stream the rest
//!     │
//!     ▼
//!   Over      (reached from every state when the stream ends: answered, reset or client gone)
//! ```
//!
//! A request is held from its headers on and released exactly once: by the `Continue` of the callback that decided, or,
//! after slices, by [`Host::resume_request`] from the root context. A request that ends while it is held is never
//! released. Whatever goes wrong, it is released unrouted.

mod body;
mod book;
mod bridge;
mod decide;
mod end;
mod headers;
mod policy;
mod prefill;
mod prompt;
mod refuse;
mod release;
mod response;
mod usage;

use std::cell::RefCell;
use std::rc::Rc;

use kv_routing::openai::Endpoint;
use kv_routing::policy::Timings;
use kv_routing::wire::UnixMillis;

use crate::config::RouteConfig;
use crate::counters::Counter;
use crate::host::{Answer, Host, Verdict};
use crate::names;
use crate::vm::Vm;

pub use headers::pass_unconfigured;
pub use prefill::Prefills;

use book::Routed;
use bridge::Asking;
use prefill::{Freeing, Handing};
use prompt::Waiting;

/// State of one request.
#[derive(Debug)]
pub struct Flow {
    /// The root context its own belongs to.
    root: u32,
    config: Rc<RouteConfig>,
    state: State,
    timings: Timings,
    /// When the step being timed began, by the host's clock.
    mark: u64,
}

/// Request headers as the client sent them, without those that only the filter may set.
type Headers = Vec<(String, Vec<u8>)>;

#[derive(Debug)]
enum State {
    Fresh,
    Reading(Endpoint, Headers),
    Preparing(Box<Waiting>),
    Asking(Box<Asking>),
    /// Its prefill call is under way, or soon.
    Handing(Box<Handing>),
    /// The same when its client has left: what that call leaves on the engine is yet to be freed.
    Left(Box<Handing>),
    /// What was prefilled for it is being freed, as nobody else fetches it.
    Freeing(Box<Freeing>),
    Passed,
    Routed(Box<Routed>),
    Over,
}

/// Why a request is left to Envoy's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unrouted {
    NoBody,
    BodyTooLarge,
    BadBody,
    NoManifest,
    BadManifest,
    UnknownModel,
    NoTarget,
    PolicyPass,
    Busy,
    PrefillAnswered,
    EndedEarly,
    BadConfiguration,
    Internal,
}

impl Unrouted {
    fn counter(self) -> Counter {
        match self {
            Self::NoBody => Counter::UnroutedNoBody,
            Self::BodyTooLarge => Counter::UnroutedBodyTooLarge,
            Self::BadBody => Counter::UnroutedBadBody,
            Self::NoManifest => Counter::UnroutedNoManifest,
            Self::BadManifest => Counter::UnroutedBadManifest,
            Self::UnknownModel => Counter::UnroutedUnknownModel,
            Self::NoTarget => Counter::UnroutedNoTarget,
            Self::PolicyPass => Counter::UnroutedPolicy,
            Self::Busy => Counter::UnroutedBusy,
            Self::PrefillAnswered => Counter::UnroutedPrefillAnswered,
            Self::EndedEarly => Counter::UnroutedEndedEarly,
            Self::BadConfiguration => Counter::UnroutedBadConfiguration,
            Self::Internal => Counter::UnroutedInternal,
        }
    }

    /// The word in the decision state: the counter's name after `kv_router.unrouted.`.
    fn word(self) -> &'static str {
        let name = self.counter().name();
        name.rsplit_once('.').map_or(name, |(_, word)| word)
    }
}

/// What a step leaves the request to.
#[derive(Debug)]
enum Next {
    /// Release it.
    Release,
    /// Hold it for more of the body.
    AwaitBody,
    /// Hold it until its next slice.
    AwaitSlice,
    /// Hold it until its root context is called, which has this number.
    AwaitRoot(u32),
    /// Hold it for the answer to this HTTP call.
    AwaitAnswer(u32),
    /// Release it; the answer to this HTTP call is of interest all the same.
    ReleaseAwaiting(u32),
    /// Nothing: it was answered from here, or is on its way already.
    Answered,
}

/// One request with the number Envoy knows it by.
#[derive(Clone, Debug)]
pub struct Stream {
    context: u32,
    flow: Rc<RefCell<Flow>>,
}

impl Stream {
    /// A new request, in a context that belongs to the root context `root`.
    pub fn new(context: u32, root: u32, config: Rc<RouteConfig>) -> Self {
        let flow = Flow { root, config, state: State::Fresh, timings: Timings::default(), mark: 0 };
        Self { context, flow: Rc::new(RefCell::new(flow)) }
    }

    /// Request headers have arrived; `last`: nothing follows.
    pub fn on_request_headers(&self, vm: &mut Vm, host: &impl Host, last: bool) -> Verdict {
        self.step(vm, host, |flow, vm, host| flow.on_headers(vm, host, last))
    }

    /// `held` bytes of the request body are here; `last`: nothing follows.
    pub fn on_request_body(&self, vm: &mut Vm, host: &impl Host, held: usize, last: bool) -> Verdict {
        self.step(vm, host, |flow, vm, host| flow.on_body(vm, host, held, last))
    }

    /// Trailers have arrived, so the body is complete.
    pub fn on_request_trailers(&self, vm: &mut Vm, host: &impl Host) -> Verdict {
        self.step(vm, host, |flow, vm, host| flow.on_trailers(vm, host))
    }

    /// Response headers have arrived, the worker's or Envoy's own.
    pub fn on_response_headers(&self, vm: &mut Vm, host: &impl Host) {
        if let Ok(mut flow) = self.flow.try_borrow_mut() {
            flow.on_response_headers(vm, host);
            vm.held.drop_context(self.context, flow.has_left());
        }
    }

    /// `bytes` bytes of the response body pass by; `last`: nothing follows.
    pub fn on_response_body(&self, vm: &mut Vm, host: &impl Host, bytes: usize, last: bool) {
        if let Ok(mut flow) = self.flow.try_borrow_mut() {
            flow.on_response_body(vm, host, bytes, last);
        }
    }

    /// Response trailers have arrived, so its body is complete.
    pub fn on_response_trailers(&self, vm: &mut Vm, host: &impl Host) {
        if let Ok(mut flow) = self.flow.try_borrow_mut() {
            flow.on_response_body(vm, host, 0, true);
        }
    }

    /// The stream is over, for whatever reason.
    pub fn on_done(&self, vm: &mut Vm, host: &impl Host) {
        if let Ok(mut flow) = self.flow.try_borrow_mut() {
            flow.on_done(vm, host);
            vm.held.drop_context(self.context, flow.has_left());
            if matches!(flow.state, State::Freeing(_)) {
                vm.held.await_root(flow.root, self.context, Rc::clone(&self.flow));
            }
        }
    }

    fn step<H: Host>(&self, vm: &mut Vm, host: &H, act: impl FnOnce(&mut Flow, &mut Vm, &H) -> Next) -> Verdict {
        let Ok(mut flow) = self.flow.try_borrow_mut() else {
            vm.counters.count(host, Counter::UnroutedInternal);
            return Verdict::Continue;
        };
        let next = act(&mut flow, vm, host);
        drop(flow);
        keep(vm, host, self.context, &self.flow, &next);
        match next {
            Next::Release | Next::ReleaseAwaiting(_) => Verdict::Continue,
            _ => Verdict::Pause,
        }
    }
}

/// Gives the request that waits longest its next turn. Called in the root context `root`.
pub fn advance_held(vm: &mut Vm, host: &impl Host, root: u32) {
    // Where Envoy may not call back for queues, which its configuration can forbid, this is how those requests go on.
    advance_rooted(vm, host, root);
    if let Some((context, flow)) = vm.held.take_first() {
        go_on(vm, host, context, flow, Flow::advance);
    }
    let _root_exists = host.enter(root);
}

/// Goes on with the requests that wait for the root context `root`, which its shared queue has called.
pub fn on_root(vm: &mut Vm, host: &impl Host, root: u32, queue: u32) {
    vm.held.empty(host, queue);
    advance_rooted(vm, host, root);
}

/// Goes on with the requests that wait for the root context `root`, which is called.
pub fn advance_rooted(vm: &mut Vm, host: &impl Host, root: u32) {
    while let Some((context, flow)) = vm.held.take_rooted(root) {
        go_on(vm, host, context, flow, Flow::advance);
    }
}

/// Ends the requests whose client has left and whose call Envoy has forgotten, as it does when a root context goes.
pub fn end_lost(vm: &mut Vm, host: &impl Host, now: UnixMillis) {
    while let Some(flow) = vm.held.take_lost(now) {
        if let Ok(mut flow) = flow.try_borrow_mut() {
            flow.end_left(vm, host);
        }
    }
}

/// Gives the answer to an HTTP call to the request that waits for it. Calls sent from callbacks of the root context are answered there, the
/// others in the context of their request.
pub fn on_answer(vm: &mut Vm, host: &impl Host, answer: Answer) {
    // A request that ended meanwhile was dropped.
    if let Some((context, flow)) = vm.held.take_answered(answer.call) {
        go_on(vm, host, context, flow, |flow, vm, host| flow.on_answer(vm, host, answer));
    }
}

/// Takes a held request one step further, outside the callbacks that could release it by what they return.
fn go_on<H: Host>(
    vm: &mut Vm,
    host: &H,
    context: u32,
    flow: Rc<RefCell<Flow>>,
    act: impl FnOnce(&mut Flow, &mut Vm, &H) -> Next,
) {
    // A request whose context is gone needs nothing any more, unless its engine does.
    if host.enter(context).is_err() && !flow.try_borrow().is_ok_and(|flow| flow.has_left()) {
        return;
    }
    let next = flow.try_borrow_mut().map_or(Next::Release, |mut flow| act(&mut flow, vm, host));
    keep(vm, host, context, &flow, &next);
    if matches!(next, Next::Release | Next::ReleaseAwaiting(_) | Next::AwaitBody) {
        host.resume_request();
    }
}

/// Keeps a request for what it waits for.
fn keep(vm: &mut Vm, host: &impl Host, context: u32, flow: &Rc<RefCell<Flow>>, next: &Next) {
    let flow = Rc::clone(flow);
    match *next {
        Next::AwaitSlice => vm.held.hold(host, context, flow),
        Next::AwaitRoot(root) => vm.held.await_root(root, context, flow),
        Next::AwaitAnswer(call) | Next::ReleaseAwaiting(call) => vm.held.await_answer(call, context, flow),
        Next::Release | Next::AwaitBody | Next::Answered => {}
    }
}

impl Flow {
    /// Begins to time steps; returns the time.
    fn start_timing(&mut self, host: &impl Host) -> UnixMillis {
        self.mark = host.now_nanos();
        millis(self.mark)
    }

    /// Microseconds that the step took which ends here; the next one begins.
    #[inline(never)]
    fn lap(&mut self, host: &impl Host) -> u32 {
        let began = std::mem::replace(&mut self.mark, host.now_nanos());
        micros(began, self.mark)
    }

    /// Leaves the request to Envoy's balancer and says why.
    fn unrouted(&mut self, vm: &Vm, host: &impl Host, why: Unrouted) -> Next {
        leave_to_envoy(vm, host, why);
        self.state = State::Passed;
        Next::Release
    }
}

/// Counts and notes why a request is left to Envoy's balancer.
fn leave_to_envoy(vm: &Vm, host: &impl Host, why: Unrouted) {
    vm.counters.count(host, why.counter());
    host.set_filter_state(names::DECISION_STATE, format!("{{\"unrouted\":\"{}\"}}", why.word()).as_bytes());
}

/// Microseconds from `began` to `now`, both in nanoseconds.
fn micros(began: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(began) / 1000).unwrap_or(u32::MAX)
}

fn millis(nanos: u64) -> UnixMillis {
    UnixMillis(nanos / 1_000_000)
}
