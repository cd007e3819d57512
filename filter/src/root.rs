//! The root context: configuration, ticks, and a context per request.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

use kv_routing::wire::UnixMillis;

use crate::config::{Config, IngestConfig, RouteConfig};
use crate::flow::{Stream, on_answer, on_root};
use crate::held::{TICK_MS, Ticker};
use crate::host::envoy::EnvoyHost;
use crate::host::{Answer, Host, Severity};
use crate::http::{self, Http};
use crate::ingest::IngestStream;
use crate::vm::Vm;

/// One filter entry of Envoy's configuration in one VM.
#[derive(Debug)]
pub(crate) struct Root {
    id: u32,
    vm: Rc<RefCell<Vm>>,
    role: Option<Role>,
    ticker: Ticker,
}

#[derive(Clone, Debug)]
enum Role {
    Route(Rc<RouteConfig>),
    Ingest(Rc<IngestConfig>),
}

impl Root {
    /// The root context with number `id`.
    pub(crate) fn new(id: u32, vm: Rc<RefCell<Vm>>) -> Self {
        Self { id, vm, role: None, ticker: Ticker::default() }
    }
}

impl Context for Root {
    /// Calls sent from a callback of this context are answered here.
    fn on_http_call_response(&mut self, call: u32, headers: usize, body: usize, _: usize) {
        if let Ok(mut vm) = self.vm.try_borrow_mut() {
            on_answer(&mut vm, &EnvoyHost, Answer { call, headers, body });
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let host = EnvoyHost;
        if let Ok(mut vm) = self.vm.try_borrow_mut() {
            vm.start(&host);
        }
        // Refusing it towards Envoy would keep Envoy from starting. Its requests are better served unrouted and counted.
        let config = match Config::parse(&host.configuration()) {
            Ok(config) => config,
            Err(error) => {
                host.log(Severity::Error, &format!("kv-router: {error}"));
                self.role = None;
                return true;
            }
        };
        self.role = Some(match config {
            Config::Route(route) => {
                host.set_tick_period(TICK_MS);
                Role::Route(Rc::from(route))
            }
            Config::Ingest(ingest) => Role::Ingest(Rc::new(ingest)),
        });
        true
    }

    fn on_tick(&mut self) {
        let host = EnvoyHost;
        if let Ok(mut vm) = self.vm.try_borrow_mut() {
            let now = UnixMillis(host.now_nanos() / 1_000_000);
            self.ticker.tick(&mut vm, &host, self.id, now);
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        if let Ok(mut vm) = self.vm.try_borrow_mut() {
            on_root(&mut vm, &EnvoyHost, self.id, queue);
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        let role = match &self.role {
            Some(Role::Route(config)) => http::Role::Route(Stream::new(context, self.id, Rc::clone(config))),
            Some(Role::Ingest(config)) => http::Role::Ingest(IngestStream::new(Rc::clone(config))),
            None => http::Role::Pass,
        };
        Some(Box::new(Http::new(role, Rc::clone(&self.vm))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
