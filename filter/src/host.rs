//! Everything the filter asks of Envoy, so that all logic runs against a fake natively.
//!
//! A call that Envoy refuses panics in the SDK, and a panic ends the VM of that thread. So the rules of use are part of
//! this interface, and the fake enforces them:
//!
//! - request headers may be read and written until the request is released (a callback returned [`Verdict::Continue`],
//!   or [`Host::resume_request`] was called);
//! - the request body may be read in the body and trailers callbacks and while the request is held after them;
//! - response headers may be read and written in the response headers callback only;
//! - the response body may be read in the response body callback only;
//! - the answer to an HTTP call may be read in its callback only, and its headers only when it has any: a call that
//!   failed has none;
//! - a request is resumed at most once, and answered at most once and not after its response has begun.

pub mod envoy;
#[cfg(not(target_family = "wasm"))]
pub mod fake;

use thiserror::Error;

/// What a callback tells Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on; the request or response leaves this filter.
    Continue,
    /// Hold it.
    Pause,
}

/// Why Envoy refused a call that may be refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HostError {
    /// The value changed since it was read.
    #[error("shared value changed meanwhile")]
    Changed,
    /// There is no such queue.
    #[error("no such shared queue")]
    NoQueue,
    /// The request is over.
    #[error("no such context")]
    NoContext,
    /// This thread has no such cluster.
    #[error("no such cluster")]
    NoCluster,
}

/// What came of an HTTP call, as its callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the call, as [`Host::call`] returned it.
    pub call: u32,
    /// Number of headers. 0 when the call was reset or its answer too long; then there is no body either. A call that could
    /// not connect is answered with 503, one that took too long with 504.
    pub headers: usize,
    /// Bytes of the body.
    pub body: usize,
}

/// A value of shared data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Its bytes; `None` when the key was never written or holds nothing.
    pub value: Option<Vec<u8>>,
    /// Version for compare-and-swap; `None` when the key was never written.
    pub version: Option<u32>,
}

/// A version no value has: a write expecting it succeeds only on a key that does not exist.
pub const ABSENT: u32 = u32::MAX;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something the operator may want to know.
    Info,
    /// Something that degrades routing.
    Warn,
    /// Something that stops the filter from working.
    Error,
}

/// The calls used. Those that return data cost 3 to 6 us, the others 0.5 to 1.5 us.
pub trait Host {
    /// Wall clock, nanoseconds since the Unix epoch.
    fn now_nanos(&self) -> u64;
    /// Unpredictable bits for a random number generator.
    fn seed(&self) -> u64;
    /// Configuration of the plugin; only while it is being configured.
    fn configuration(&self) -> Vec<u8>;
    /// Asks for a tick of the root context every `millis` ms, 0 for none.
    fn set_tick_period(&self, millis: u32);
    /// Writes a line to Envoy's log.
    fn log(&self, severity: Severity, line: &str);
    /// Makes the following calls concern another context, a request or the root one.
    ///
    /// # Errors
    /// [`HostError::NoContext`] when it is gone.
    fn enter(&self, context: u32) -> Result<(), HostError>;

    /// All request headers.
    fn request_headers(&self) -> Vec<(String, Vec<u8>)>;
    /// Replaces a request header; clears the route cache.
    fn set_request_header(&self, name: &str, value: &[u8]);
    /// Removes a request header; clears the route cache.
    fn remove_request_header(&self, name: &str);
    /// The first `bytes` bytes of the request body held so far.
    fn request_body(&self, bytes: usize) -> Vec<u8>;
    /// Replaces the request body, where it may be read. Its length is told in a header of its own.
    fn set_request_body(&self, body: &[u8]);
    /// Releases a held request.
    fn resume_request(&self);
    /// Answers the request from here.
    fn reply(&self, status: u32, headers: &[(&str, &str)], body: &[u8]);

    /// Sends an HTTP request to a cluster. Its answer comes to the callback of the stream Envoy called last, and never when
    /// that stream ends before. Returns the number of the call.
    ///
    /// # Errors
    /// [`HostError::NoCluster`].
    fn call(&self, cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout_ms: u32) -> Result<u32, HostError>;
    /// A header of the answer to a call that has headers.
    fn answer_header(&self, name: &str) -> Option<Vec<u8>>;
    /// The first `bytes` bytes of the answer to a call.
    fn answer_body(&self, bytes: usize) -> Vec<u8>;

    /// A response header.
    fn response_header(&self, name: &str) -> Option<Vec<u8>>;
    /// Replaces a response header.
    fn set_response_header(&self, name: &str, value: &[u8]);
    /// `bytes` bytes of the current piece of the response body, from `start` on, which must lie within it.
    fn response_body(&self, start: usize, bytes: usize) -> Vec<u8>;

    /// An Envoy attribute.
    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>>;
    /// Sets filter state `wasm.<name>` for access logs.
    fn set_filter_state(&self, name: &str, value: &[u8]);

    /// Reads shared data.
    fn shared(&self, key: &str) -> Shared;
    /// Writes shared data, if `expected` is its version or `None`.
    ///
    /// # Errors
    /// [`HostError::Changed`] when it has another version.
    fn set_shared(&self, key: &str, value: &[u8], expected: Option<u32>) -> Result<(), HostError>;
    /// Makes this VM's root context the consumer of a shared queue, and makes the queue if there is none.
    fn register_queue(&self, name: &str) -> u32;
    /// Finds a shared queue.
    fn queue(&self, name: &str) -> Option<u32>;
    /// Appends to a shared queue; its consumer is called on its own thread.
    ///
    /// # Errors
    /// [`HostError::NoQueue`].
    fn enqueue(&self, queue: u32, value: &[u8]) -> Result<(), HostError>;
    /// Takes from a shared queue.
    ///
    /// # Errors
    /// [`HostError::NoQueue`].
    fn dequeue(&self, queue: u32) -> Result<Option<Vec<u8>>, HostError>;

    /// Makes a counter, or finds it.
    fn counter(&self, name: &str) -> u32;
    /// Adds to a counter.
    fn add(&self, counter: u32, amount: u32);
}
