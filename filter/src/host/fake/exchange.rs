//! One request driven through the callbacks in Envoy's order.

use std::rc::Rc;

use super::{FakeHost, FakeStream, ROOT};
use crate::config::RouteConfig;
use crate::flow::Stream;
use crate::host::Verdict;
use crate::ingest::IngestStream;
use crate::vm::Vm;

/// A client's request on its way through the routing filter of one thread.
#[derive(Debug)]
pub struct Exchange {
    context: u32,
    stream: Stream,
}

impl Exchange {
    /// Opens a stream and lets its headers through; `last`: it has no body.
    pub fn open(host: &FakeHost, vm: &mut Vm, config: &Rc<RouteConfig>, headers: &[(&str, &[u8])], last: bool) -> Self {
        let context = host.next_context.replace(host.next_context.get() + 1);
        let pairs = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        host.streams.borrow_mut().insert(context, FakeStream { request_headers: pairs, ..FakeStream::default() });
        let exchange = Self { context, stream: Stream::new(context, ROOT, Rc::clone(config)) };
        host.set_current(context);
        let verdict = exchange.stream.on_request_headers(vm, host, last);
        exchange.settle(host, verdict);
        exchange
    }

    /// Its number.
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Looks at it.
    pub fn see<T>(&self, host: &FakeHost, look: impl FnOnce(&mut FakeStream) -> T) -> T {
        look(host.streams.borrow_mut().get_mut(&self.context).unwrap())
    }

    /// Whether it left the filter.
    pub fn is_released(&self, host: &FakeHost) -> bool {
        self.see(host, |stream| stream.is_released())
    }

    /// A piece of the request body; held pieces add up.
    pub fn body(&self, host: &FakeHost, vm: &mut Vm, piece: &[u8], last: bool) {
        let held = self.see(host, |stream| {
            if stream.released {
                return piece.len();
            }
            stream.request_body.extend_from_slice(piece);
            stream.body_readable = true;
            stream.request_body.len()
        });
        host.set_current(self.context);
        let verdict = self.stream.on_request_body(vm, host, held, last);
        self.settle(host, verdict);
        host.call_roots(vm);
    }

    /// Request trailers, instead of a last piece.
    pub fn trailers(&self, host: &FakeHost, vm: &mut Vm) {
        host.set_current(self.context);
        let verdict = self.stream.on_request_trailers(vm, host);
        self.settle(host, verdict);
        host.call_roots(vm);
    }

    fn settle(&self, host: &FakeHost, verdict: Verdict) {
        self.see(host, |stream| {
            if verdict == Verdict::Continue && !stream.released {
                stream.release();
            }
        });
    }

    /// Envoy has connected to `upstream` and sends the request.
    pub fn connected(&self, host: &FakeHost, upstream: &str) {
        self.see(host, |stream| {
            stream.attributes.insert("upstream.address".to_owned(), upstream.as_bytes().to_vec());
            stream.attributes.insert("upstream.cx_pool_ready_duration".to_owned(), vec![0; 8]);
        });
    }

    /// Response headers, of `upstream` or of Envoy itself.
    pub fn response(&self, host: &FakeHost, vm: &mut Vm, status: u32, upstream: Option<&str>) {
        self.see(host, |stream| {
            stream.responded = true;
            stream.response_headers = Some(vec![(":status".to_owned(), status.to_string().into_bytes())]);
            if let Some(upstream) = upstream {
                stream.attributes.insert("upstream.address".to_owned(), upstream.as_bytes().to_vec());
            }
        });
        host.set_current(self.context);
        self.stream.on_response_headers(vm, host);
        self.see(host, |stream| stream.sent_response_headers = stream.response_headers.take().unwrap());
    }

    /// A piece of the response body.
    pub fn response_body(&self, host: &FakeHost, vm: &mut Vm, piece: &[u8], last: bool) {
        self.see(host, |stream| stream.response_piece = Some(piece.to_vec()));
        host.set_current(self.context);
        self.stream.on_response_body(vm, host, piece.len(), last);
        self.see(host, |stream| stream.response_piece = None);
    }

    /// Response trailers.
    pub fn response_trailers(&self, host: &FakeHost, vm: &mut Vm) {
        host.set_current(self.context);
        self.stream.on_response_trailers(vm, host);
    }

    /// The stream ends, after its response or in the middle of anything; the context is gone afterwards.
    pub fn done(&self, host: &FakeHost, vm: &mut Vm) -> FakeStream {
        self.see(host, |stream| stream.over = true);
        host.set_current(self.context);
        self.stream.on_done(vm, host);
        // Their answers would come to its own callback.
        host.sent.borrow_mut().retain(|call| call.caller != self.context);
        host.streams.borrow_mut().remove(&self.context).unwrap()
    }
}

impl Exchange {
    /// Drives a request with `body` through the ingest role, and returns it when it is over. An empty body is none at all.
    pub fn ingest(
        host: &FakeHost,
        vm: &mut Vm,
        stream: &mut IngestStream,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> FakeStream {
        const CONTEXT: u32 = 2;
        let pairs = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        host.streams.borrow_mut().insert(CONTEXT, FakeStream { request_headers: pairs, ..FakeStream::default() });
        host.set_current(CONTEXT);
        let mut held = stream.on_request_headers(vm, host, body.is_empty()) == Verdict::Pause;
        let middle = body.len() / 2;
        for (end, last) in [(middle, false), (body.len(), true)] {
            if !held || body.is_empty() || host.streams.borrow()[&CONTEXT].reply.is_some() {
                break;
            }
            host.stream(|seen| {
                seen.request_body = body[..end].to_vec();
                seen.body_readable = true;
            });
            held = stream.on_request_body(vm, host, end, last) == Verdict::Pause;
        }
        host.streams.borrow_mut().remove(&CONTEXT).unwrap()
    }
}
