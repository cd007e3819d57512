//! Request headers: strip what is ours, and see whether the request is of any business.

use kv_routing::openai::Endpoint;

use super::{Flow, Headers, Next, State, Unrouted, leave_to_envoy};
use crate::counters::Counter;
use crate::host::Host;
use crate::names;
use crate::vm::Vm;

impl Flow {
    pub(super) fn on_headers(&mut self, vm: &mut Vm, host: &impl Host, last: bool) -> Next {
        let mut headers = host.request_headers();
        strip(vm, host, &mut headers);
        let Some(endpoint) = path(&headers).and_then(Endpoint::of_path) else {
            self.state = State::Passed;
            return Next::Release;
        };
        vm.counters.count(host, Counter::Requests);
        if last {
            return self.unrouted(vm, host, Unrouted::NoBody);
        }
        self.state = State::Reading(endpoint, headers);
        Next::AwaitBody
    }
}

/// A request to a filter entry whose configuration was refused: headers that are ours go all the same, the rest is Envoy's.
pub fn pass_unconfigured(vm: &Vm, host: &impl Host) {
    let mut headers = host.request_headers();
    strip(vm, host, &mut headers);
    if path(&headers).and_then(Endpoint::of_path).is_some() {
        vm.counters.count(host, Counter::Requests);
        leave_to_envoy(vm, host, Unrouted::BadConfiguration);
    }
}

/// Removes every header only the filter may set, on every path: a client's copy would choose the host.
#[inline(never)]
fn strip(vm: &Vm, host: &impl Host, headers: &mut Headers) {
    for own in names::OWN_HEADERS {
        let before = headers.len();
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case(own));
        if headers.len() < before {
            host.remove_request_header(own);
            vm.counters.count(host, Counter::StrippedHeaders);
        }
    }
}

fn path(headers: &[(String, Vec<u8>)]) -> Option<&str> {
    let (_, path) = headers.iter().find(|(name, _)| name == ":path")?;
    std::str::from_utf8(path).ok()
}
