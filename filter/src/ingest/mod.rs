//! The ingest role: takes pushes of the bridge into shared data and answers with load rows and decisions.
//!
//! ```text
//!   Fresh ── POST of the push path ──▶ Reading ── last byte ──▶ apply, answer ──▶ Answered
//!     │  └── GET of it: 200 ──▶ Answered      └── too long: 413 ──▶ Answered
//!     └── anything else ──▶ passed on to the listener's own routes
//! ```
//!
//! The rules a push is judged by are in [`kv_routing::wire`], beside the message.

mod apply;
mod reply;

use std::rc::Rc;

use kv_routing::wire::UnixMillis;

use crate::config::IngestConfig;
use crate::counters::Counter;
use crate::host::{Host, Verdict};
use crate::names;
use crate::vm::Vm;

use apply::{Outcome, apply};
use reply::{Drained, reply};

/// One request on the ingest listener.
#[derive(Debug)]
pub struct IngestStream {
    config: Rc<IngestConfig>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Reading,
    Passed,
    Answered,
}

impl IngestStream {
    /// A new request.
    pub fn new(config: Rc<IngestConfig>) -> Self {
        Self { config, state: State::Fresh }
    }

    /// Request headers have arrived; `last`: nothing follows.
    pub fn on_request_headers(&mut self, vm: &mut Vm, host: &impl Host, last: bool) -> Verdict {
        let headers = host.request_headers();
        let value = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_slice());
        let path = value(":path").unwrap_or_default();
        if path.split(|byte| *byte == b'?').next() != Some(names::PUSH_PATH.as_bytes()) {
            self.state = State::Passed;
            return Verdict::Continue;
        }
        match value(":method") {
            Some(b"GET") => self.answer(host, 200, b"ok\n"),
            Some(b"POST") if !self.is_authorized(value("authorization")) => {
                vm.counters.count(host, Counter::IngestUnauthorized);
                self.answer(host, 401, b"the push carries no valid secret\n")
            }
            Some(b"POST") if last => {
                vm.counters.count(host, Counter::IngestMalformed);
                self.answer(host, 400, b"the push has no body\n")
            }
            Some(b"POST") => {
                self.state = State::Reading;
                Verdict::Pause
            }
            _ => self.answer(host, 405, b"POST a push, or GET to see whether the listener works\n"),
        }
    }

    /// `held` bytes of the body are here; `last`: nothing follows.
    pub fn on_request_body(&mut self, vm: &mut Vm, host: &impl Host, held: usize, last: bool) -> Verdict {
        match self.state {
            State::Reading => {}
            State::Answered => return Verdict::Pause,
            State::Fresh | State::Passed => return Verdict::Continue,
        }
        if held > self.config.max_push_bytes as usize {
            vm.counters.count(host, Counter::IngestTooLarge);
            return self.answer(host, 413, b"the push is longer than max_push_bytes\n");
        }
        if !last {
            return Verdict::Pause;
        }
        let now = UnixMillis(host.now_nanos() / 1_000_000);
        match apply(vm, host, &host.request_body(held), now) {
            Outcome::Applied | Outcome::Superseded => self.reply(vm, host, false, now),
            Outcome::NeedSnapshot => self.reply(vm, host, true, now),
            Outcome::Refused(why) => self.answer(host, 400, why.as_bytes()),
        }
    }

    /// Trailers: a push has none, but a body may end with them.
    pub fn on_request_trailers(&mut self, vm: &mut Vm, host: &impl Host) -> Verdict {
        let all = self.config.max_push_bytes as usize;
        self.on_request_body(vm, host, all, true)
    }

    fn reply(&mut self, vm: &mut Vm, host: &impl Host, need_snapshot: bool, now: UnixMillis) -> Verdict {
        let Drained { decisions, dropped } = reply::drain(vm, host);
        match reply(vm, host, need_snapshot, decisions, dropped, now).encode() {
            Ok(bytes) => self.answer(host, 200, &bytes),
            Err(error) => self.answer(host, 500, format!("{error}\n").as_bytes()),
        }
    }

    fn answer(&mut self, host: &impl Host, status: u32, body: &[u8]) -> Verdict {
        let kind = if status == 200 { "application/octet-stream" } else { "text/plain" };
        host.reply(status, &[("content-type", kind)], body);
        self.state = State::Answered;
        Verdict::Pause
    }

    /// Compares without telling by time how much of the secret was right.
    fn is_authorized(&self, header: Option<&[u8]>) -> bool {
        let Some(secret) = &self.config.secret else { return true };
        let Some(given) = header.and_then(|header| header.strip_prefix(b"Bearer ")) else { return false };
        let differences = given.iter().zip(secret.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == secret.len() && differences == 0
    }
}
