//! The Envoy filter: a thin proxy-wasm adapter over [`kv_routing`].
//!
//! | module | what |
//! |---|---|
//! | [`config`] | plugin configuration |
//! | [`flow`] | one request: its state machine, one file per step |
//! | [`held`] | requests between two slices of their prompt, ticks |
//! | [`ingest`] | pushes of the bridge into shared data |
//! | [`view`] | shared data as one VM sees it |
//! | [`vm`] | what one VM keeps between requests |
//! | [`feed`] | decisions on their way to the bridge |
//! | [`counters`] | Envoy stats |
//! | [`names`] | headers, filter state, paths |
//! | [`host`] | the calls to Envoy: trait, implementation, fake |
//! | `root`, `http` | proxy-wasm contexts: callbacks to calls, nothing else |
//!
//! Only `lib.rs`, `root.rs`, `http.rs` and `host/envoy.rs` may name `proxy_wasm`. A native test that reaches one of its
//! calls does not link, which keeps it so.

pub mod config;
pub mod counters;
pub mod feed;
pub mod flow;
pub mod held;
pub mod host;
mod http;
pub mod ingest;
pub mod names;
mod root;
pub mod view;
pub mod vm;

use std::cell::RefCell;
use std::rc::Rc;

use host::envoy::EnvoyHost;
use vm::Vm;

thread_local! {
    /// A VM has one thread, so this is the VM's own state, shared by all filter entries that run in it.
    static VM: Rc<RefCell<Vm>> = Rc::new(RefCell::new(Vm::new(&EnvoyHost)));
}

#[allow(missing_docs, unreachable_pub, reason = "the SDK's macro writes the function")]
mod entry {
    use std::rc::Rc;

    use proxy_wasm::types::LogLevel;

    use crate::VM;
    use crate::root::Root;

    proxy_wasm::main! {{
        // Also installs a panic hook that logs where.
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|id| Box::new(Root::new(id, VM.with(Rc::clone))));
    }}
}
