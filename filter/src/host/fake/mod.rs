//! An Envoy for native tests: keeps state, and panics where the real one would end the VM.
//!
//! [`FakeEnvoy`] is the process: clock, shared data, queues, stats. [`FakeHost`] is one thread of it with its requests.
//! [`Exchange`] drives one request through the callbacks in Envoy's order.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test double: a broken rule must fail the test"
)]

mod call;
mod exchange;
mod process;
mod stream;

pub use call::{FakeAnswer, FakeCall};
pub use exchange::Exchange;
pub use process::FakeEnvoy;
pub use stream::FakeStream;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::{Host, HostError, Severity, Shared};

/// Number of the root context.
pub const ROOT: u32 = 1;

/// One thread of a [`FakeEnvoy`].
#[derive(Debug)]
pub struct FakeHost {
    /// The process.
    pub envoy: Rc<FakeEnvoy>,
    /// Its requests by context.
    pub streams: RefCell<HashMap<u32, FakeStream>>,
    /// Plugin configuration.
    pub configuration: RefCell<Vec<u8>>,
    /// HTTP calls sent and not yet answered.
    pub sent: RefCell<Vec<FakeCall>>,
    /// Milliseconds between ticks; 0 for none.
    pub tick_period: Cell<u32>,
    current: Cell<u32>,
    /// The context whose callback runs.
    called: Cell<u32>,
    /// Whether root contexts are called back only when a test says so.
    pub late_roots: Cell<bool>,
    /// Queues of this thread, and those of them whose callbacks are due.
    queues: RefCell<Vec<u32>>,
    posted: RefCell<VecDeque<u32>>,
    /// The answer whose callback runs, and the request it is for.
    answer: RefCell<Option<(u32, FakeAnswer)>>,
    next_context: Cell<u32>,
    next_call: Cell<u32>,
    calls: RefCell<BTreeMap<&'static str, u32>>,
    seeds: Cell<u64>,
}

impl FakeHost {
    /// A thread of `envoy`.
    pub fn new(envoy: &Rc<FakeEnvoy>) -> Self {
        Self {
            envoy: Rc::clone(envoy),
            streams: RefCell::default(),
            configuration: RefCell::default(),
            sent: RefCell::default(),
            called: Cell::new(ROOT),
            late_roots: Cell::default(),
            queues: RefCell::default(),
            posted: RefCell::default(),
            answer: RefCell::default(),
            next_context: Cell::new(100),
            next_call: Cell::new(1),
            tick_period: Cell::new(crate::held::TICK_MS),
            current: Cell::new(ROOT),
            calls: RefCell::default(),
            seeds: Cell::new(envoy.next_seed()),
        }
    }

    /// Calls made so far, by name.
    pub fn calls(&self) -> BTreeMap<&'static str, u32> {
        self.calls.borrow().clone()
    }

    /// Forgets the calls made so far.
    pub fn forget_calls(&self) {
        self.calls.borrow_mut().clear();
    }

    /// Makes calls concern `context`, as Envoy does before a callback.
    pub fn set_current(&self, context: u32) {
        self.current.set(context);
        self.called.set(context);
    }

    /// The request calls concern.
    pub fn current(&self) -> u32 {
        self.current.get()
    }

    fn note(&self, name: &'static str) {
        *self.calls.borrow_mut().entry(name).or_default() += 1;
    }

    fn stream<T>(&self, act: impl FnOnce(&mut FakeStream) -> T) -> T {
        let mut streams = self.streams.borrow_mut();
        let context = self.current.get();
        let stream = streams.get_mut(&context).unwrap_or_else(|| panic!("context {context} is not a request"));
        act(stream)
    }
}

impl Host for FakeHost {
    fn now_nanos(&self) -> u64 {
        self.note("now");
        self.envoy.tick_nanos()
    }

    fn seed(&self) -> u64 {
        self.seeds.set(self.seeds.get().wrapping_add(1));
        self.seeds.get()
    }

    fn configuration(&self) -> Vec<u8> {
        self.configuration.borrow().clone()
    }

    fn set_tick_period(&self, millis: u32) {
        self.note("set_tick_period");
        self.tick_period.set(millis);
    }

    fn log(&self, severity: Severity, line: &str) {
        self.envoy.logs.borrow_mut().push((severity, line.to_owned()));
    }

    fn enter(&self, context: u32) -> Result<(), HostError> {
        self.note("enter");
        if context != ROOT && !self.streams.borrow().contains_key(&context) {
            return Err(HostError::NoContext);
        }
        self.current.set(context);
        Ok(())
    }

    fn request_headers(&self) -> Vec<(String, Vec<u8>)> {
        self.note("request_headers");
        self.stream(|stream| stream.open_request_headers().clone())
    }

    fn set_request_header(&self, name: &str, value: &[u8]) {
        self.note("set_request_header");
        self.stream(|stream| {
            let headers = stream.open_request_headers();
            headers.retain(|(known, _)| known != name);
            headers.push((name.to_owned(), value.to_vec()));
        });
    }

    fn remove_request_header(&self, name: &str) {
        self.note("remove_request_header");
        self.stream(|stream| stream.open_request_headers().retain(|(known, _)| known != name));
    }

    fn request_body(&self, bytes: usize) -> Vec<u8> {
        self.note("request_body");
        self.stream(|stream| stream.open_request_body().iter().take(bytes).copied().collect())
    }

    fn set_request_body(&self, body: &[u8]) {
        self.note("set_request_body");
        self.stream(|stream| {
            stream.open_request_body();
            stream.request_body = body.to_vec();
        });
    }

    fn resume_request(&self) {
        self.note("resume_request");
        self.stream(|stream| {
            assert!(!stream.answered(), "a request that was answered is resumed");
            stream.release();
        });
    }

    fn reply(&self, status: u32, headers: &[(&str, &str)], body: &[u8]) {
        self.note("reply");
        self.stream(|stream| stream.answer(status, headers, body));
    }

    fn call(&self, cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout_ms: u32) -> Result<u32, HostError> {
        self.note("call");
        self.send(cluster, headers, body, timeout_ms)
    }

    fn answer_header(&self, name: &str) -> Option<Vec<u8>> {
        self.note("answer_header");
        self.open_answer(|answer| answer.header(name))
    }

    fn answer_body(&self, bytes: usize) -> Vec<u8> {
        self.note("answer_body");
        self.open_answer(|answer| answer.body.iter().take(bytes).copied().collect())
    }

    fn response_header(&self, name: &str) -> Option<Vec<u8>> {
        self.note("response_header");
        self.stream(|stream| {
            let headers = stream.open_response_headers();
            headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    fn set_response_header(&self, name: &str, value: &[u8]) {
        self.note("set_response_header");
        self.stream(|stream| stream.open_response_headers().push((name.to_owned(), value.to_vec())));
    }

    fn response_body(&self, start: usize, bytes: usize) -> Vec<u8> {
        self.note("response_body");
        self.stream(|stream| {
            let piece = stream.open_response_piece();
            assert!(start <= piece.len(), "reads beyond the piece");
            piece.iter().skip(start).take(bytes).copied().collect()
        })
    }

    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>> {
        self.note("attribute");
        self.stream(|stream| stream.attributes.get(&path.join(".")).cloned())
    }

    fn set_filter_state(&self, name: &str, value: &[u8]) {
        self.note("set_filter_state");
        self.stream(|stream| stream.filter_state.insert(name.to_owned(), String::from_utf8(value.to_vec()).unwrap()));
    }

    fn shared(&self, key: &str) -> Shared {
        self.note("shared");
        self.envoy.shared(key)
    }

    fn set_shared(&self, key: &str, value: &[u8], expected: Option<u32>) -> Result<(), HostError> {
        self.note("set_shared");
        self.envoy.set_shared(key, value, expected)
    }

    fn register_queue(&self, name: &str) -> u32 {
        self.note("register_queue");
        let queue = self.envoy.register_queue(name);
        self.queues.borrow_mut().push(queue);
        queue
    }

    fn queue(&self, name: &str) -> Option<u32> {
        self.note("queue");
        self.envoy.queue(name)
    }

    fn enqueue(&self, queue: u32, value: &[u8]) -> Result<(), HostError> {
        self.note("enqueue");
        if self.queues.borrow().contains(&queue) {
            self.posted.borrow_mut().push_back(queue);
        }
        self.envoy.enqueue(queue, value)
    }

    fn dequeue(&self, queue: u32) -> Result<Option<Vec<u8>>, HostError> {
        self.note("dequeue");
        self.envoy.dequeue(queue)
    }

    fn counter(&self, name: &str) -> u32 {
        self.envoy.counter(name)
    }

    fn add(&self, counter: u32, amount: u32) {
        self.note("add");
        self.envoy.add(counter, amount);
    }
}
