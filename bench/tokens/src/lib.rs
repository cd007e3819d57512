//! A filter that measures tokenizing inside Envoy's wasm runtime.
//!
//! A request's body is what is worked on, the answer a JSON object of times in nanoseconds.
//!
//! | path | body | answer |
//! |---|---|---|
//! | `/core/load` | compiled tokenizer | `nanos`, `memory` |
//! | `/core/text` | text | `nanos`, `longest` (slice), `tokens`, `memory` |
//! | `/core/chat` | chat completion request | the same, parsing and template included; `parse` and `template` of it |
//! | `/core/ids` | text | `ids` |
//! | `/reference/load` | `tokenizer.json` | `nanos`, `memory` |
//! | `/reference/text` | text | `nanos`, `tokens`, `memory` |
//! | `/reference/ids` | text | `ids` |
//!
//! `memory` is the VM's linear memory in bytes. The reference is the published `tokenizers` crate.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a tool for developers: what goes wrong ends the run")]

mod core;
mod reference;

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};
use serde_json::{Value, json};

use crate::core::Core;
use crate::reference::Reference;

/// What is loaded in one VM.
#[derive(Default)]
struct Loaded {
    core: Option<Core>,
    reference: Option<Reference>,
}

impl Loaded {
    fn answer(&mut self, path: &str, body: Vec<u8>) -> Value {
        match path {
            "/core/load" => Core::load(&mut self.core, body),
            "/core/text" => self.core().text(text(body)),
            "/core/chat" => self.core().chat(&body),
            "/core/ids" => self.core().ids(&text(body)),
            "/reference/load" => Reference::load(&mut self.reference, &body),
            "/reference/text" => self.reference().text(&text(body)),
            "/reference/ids" => self.reference().ids(&text(body)),
            _ => json!({"error": "no such measurement"}),
        }
    }

    fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("/core/load comes first")
    }

    fn reference(&mut self) -> &Reference {
        self.reference.as_ref().expect("/reference/load comes first")
    }
}

fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).expect("text")
}

/// Linear memory of this VM in bytes; there is none outside of wasm.
fn memory() -> u64 {
    #[cfg(target_arch = "wasm32")]
    {
        const PAGE: u64 = 65_536;
        ::core::arch::wasm32::memory_size::<0>() as u64 * PAGE
    }
    #[cfg(not(target_arch = "wasm32"))]
    {
        0
    }
}

thread_local! {
    /// A VM has one thread.
    static LOADED: Rc<RefCell<Loaded>> = Rc::default();
}

struct Root(Rc<RefCell<Loaded>>);

impl Context for Root {}

impl RootContext for Root {
    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http(Rc::clone(&self.0))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Http(Rc<RefCell<Loaded>>);

impl Context for Http {}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        Action::Pause
    }

    fn on_http_request_body(&mut self, held: usize, last: bool) -> Action {
        if last {
            let path = self.get_http_request_header(":path").unwrap_or_default();
            let body = self.get_http_request_body(0, held).unwrap_or_default();
            let answer = self.0.borrow_mut().answer(&path, body).to_string();
            self.send_http_response(200, vec![("content-type", "application/json")], Some(answer.as_bytes()));
        }
        Action::Pause
    }
}

#[allow(missing_docs, unreachable_pub, reason = "the SDK's macro writes the function")]
mod entry {
    use std::rc::Rc;

    use proxy_wasm::types::LogLevel;

    use crate::{LOADED, Root};

    proxy_wasm::main! {{
        proxy_wasm::set_log_level(LogLevel::Info);
        proxy_wasm::set_root_context(|_| Box::new(Root(LOADED.with(Rc::clone))));
    }}
}
