//! The HTTP contexts: callbacks in, verdicts out, nothing else.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::config::{IngestConfig, RouteConfig};
use crate::flow::Stream;
use crate::host::Verdict;
use crate::host::envoy::EnvoyHost;
use crate::ingest::IngestStream;
use crate::vm::Vm;

impl From<Verdict> for Action {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Continue => Self::Continue,
            Verdict::Pause => Self::Pause,
        }
    }
}

/// A request to be routed.
#[derive(Debug)]
pub(crate) struct RouteHttp {
    stream: Stream,
    vm: Rc<RefCell<Vm>>,
}

impl RouteHttp {
    /// The request with number `context`.
    pub(crate) fn new(context: u32, config: Rc<RouteConfig>, vm: Rc<RefCell<Vm>>) -> Self {
        Self { stream: Stream::new(context, config), vm }
    }

    /// Runs a step. Callbacks never nest, so the VM is always free; were it not, the request would pass.
    fn with(&self, step: impl FnOnce(&Stream, &mut Vm) -> Verdict) -> Action {
        match self.vm.try_borrow_mut() {
            Ok(mut vm) => step(&self.stream, &mut vm).into(),
            Err(_) => Action::Continue,
        }
    }
}

impl Context for RouteHttp {
    fn on_done(&mut self) -> bool {
        self.with(|stream, vm| {
            stream.on_done(vm, &EnvoyHost);
            Verdict::Continue
        });
        true
    }
}

impl HttpContext for RouteHttp {
    fn on_http_request_headers(&mut self, _: usize, last: bool) -> Action {
        self.with(|stream, vm| stream.on_request_headers(vm, &EnvoyHost, last))
    }

    fn on_http_request_body(&mut self, held: usize, last: bool) -> Action {
        self.with(|stream, vm| stream.on_request_body(vm, &EnvoyHost, held, last))
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        self.with(|stream, vm| stream.on_request_trailers(vm, &EnvoyHost))
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.with(|stream, vm| {
            stream.on_response_headers(vm, &EnvoyHost);
            Verdict::Continue
        })
    }

    fn on_http_response_body(&mut self, bytes: usize, last: bool) -> Action {
        self.with(|stream, vm| {
            stream.on_response_body(vm, &EnvoyHost, bytes, last);
            Verdict::Continue
        })
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.with(|stream, vm| {
            stream.on_response_trailers(vm, &EnvoyHost);
            Verdict::Continue
        })
    }
}

/// A request on the ingest listener.
#[derive(Debug)]
pub(crate) struct IngestHttp {
    stream: IngestStream,
    vm: Rc<RefCell<Vm>>,
}

impl IngestHttp {
    /// A new request.
    pub(crate) fn new(config: Rc<IngestConfig>, vm: Rc<RefCell<Vm>>) -> Self {
        Self { stream: IngestStream::new(config), vm }
    }

    fn with(&mut self, step: impl FnOnce(&mut IngestStream, &mut Vm) -> Verdict) -> Action {
        match self.vm.try_borrow_mut() {
            Ok(mut vm) => step(&mut self.stream, &mut vm).into(),
            Err(_) => Action::Continue,
        }
    }
}

impl Context for IngestHttp {}

impl HttpContext for IngestHttp {
    fn on_http_request_headers(&mut self, _: usize, last: bool) -> Action {
        self.with(|stream, vm| stream.on_request_headers(vm, &EnvoyHost, last))
    }

    fn on_http_request_body(&mut self, held: usize, last: bool) -> Action {
        self.with(|stream, vm| stream.on_request_body(vm, &EnvoyHost, held, last))
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        self.with(|stream, vm| stream.on_request_trailers(vm, &EnvoyHost))
    }
}

/// A request before the filter is configured, which Envoy does not send.
#[derive(Debug)]
pub(crate) struct PassHttp;

impl Context for PassHttp {}
impl HttpContext for PassHttp {}
