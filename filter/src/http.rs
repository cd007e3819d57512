//! The HTTP context: callbacks in, verdicts out, nothing else.
//!
//! One type for both roles: every type that implements the SDK's traits carries a copy of all their default methods.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use crate::flow::{Stream, on_answer, pass_unconfigured};
use crate::host::envoy::EnvoyHost;
use crate::host::{Answer, Verdict};
use crate::ingest::IngestStream;
use crate::vm::Vm;

/// One request.
#[derive(Debug)]
pub(crate) struct Http {
    role: Role,
    vm: Rc<RefCell<Vm>>,
}

/// What its filter entry does with it.
#[derive(Debug)]
pub(crate) enum Role {
    /// Routes it.
    Route(Stream),
    /// Takes it as a push.
    Ingest(IngestStream),
    /// Lets it pass: the entry's configuration was refused.
    Pass,
}

impl Http {
    /// A new request.
    pub(crate) fn new(role: Role, vm: Rc<RefCell<Vm>>) -> Self {
        Self { role, vm }
    }

    /// Runs a step of either role. Callbacks never nest, so the VM is always free; were it not, the request would pass.
    fn step(
        &mut self,
        route: impl FnOnce(&Stream, &mut Vm) -> Verdict,
        ingest: impl FnOnce(&mut IngestStream, &mut Vm) -> Verdict,
    ) -> Action {
        let Ok(mut vm) = self.vm.try_borrow_mut() else {
            return Action::Continue;
        };
        let verdict = match &mut self.role {
            Role::Route(stream) => route(stream, &mut vm),
            Role::Ingest(stream) => ingest(stream, &mut vm),
            Role::Pass => Verdict::Continue,
        };
        match verdict {
            Verdict::Continue => Action::Continue,
            Verdict::Pause => Action::Pause,
        }
    }

    /// Runs a step that only routing has and that never holds anything.
    fn watch(&mut self, route: impl FnOnce(&Stream, &mut Vm)) -> Action {
        let go_on = |stream: &Stream, vm: &mut Vm| {
            route(stream, vm);
            Verdict::Continue
        };
        self.step(go_on, |_, _| Verdict::Continue)
    }
}

impl Context for Http {
    fn on_done(&mut self) -> bool {
        self.watch(|stream, vm| stream.on_done(vm, &EnvoyHost));
        true
    }

    fn on_http_call_response(&mut self, call: u32, headers: usize, body: usize, _: usize) {
        if let Ok(mut vm) = self.vm.try_borrow_mut() {
            on_answer(&mut vm, &EnvoyHost, Answer { call, headers, body });
        }
    }
}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _: usize, last: bool) -> Action {
        if let (Role::Pass, Ok(vm)) = (&self.role, self.vm.try_borrow()) {
            pass_unconfigured(&vm, &EnvoyHost);
        }
        self.step(
            |stream, vm| stream.on_request_headers(vm, &EnvoyHost, last),
            |stream, vm| stream.on_request_headers(vm, &EnvoyHost, last),
        )
    }

    fn on_http_request_body(&mut self, held: usize, last: bool) -> Action {
        self.step(
            |stream, vm| stream.on_request_body(vm, &EnvoyHost, held, last),
            |stream, vm| stream.on_request_body(vm, &EnvoyHost, held, last),
        )
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        self.step(
            |stream, vm| stream.on_request_trailers(vm, &EnvoyHost),
            |stream, vm| stream.on_request_trailers(vm, &EnvoyHost),
        )
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.watch(|stream, vm| stream.on_response_headers(vm, &EnvoyHost))
    }

    fn on_http_response_body(&mut self, bytes: usize, last: bool) -> Action {
        self.watch(|stream, vm| stream.on_response_body(vm, &EnvoyHost, bytes, last))
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.watch(|stream, vm| stream.on_response_trailers(vm, &EnvoyHost))
    }
}
