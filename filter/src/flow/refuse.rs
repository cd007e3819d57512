//! Answering a request that its policy refuses.

use kv_routing::policy::{PassReason, Refusal};

use super::policy::Said;
use super::{Flow, Next, State, Unrouted};
use crate::counters::Counter;
use crate::host::Host;
use crate::names;
use crate::vm::Vm;

impl From<PassReason> for Unrouted {
    fn from(reason: PassReason) -> Self {
        match reason {
            PassReason::Mode => Self::PolicyPass,
            PassReason::NoTarget => Self::NoTarget,
            PassReason::Busy => Self::Busy,
        }
    }
}

impl Flow {
    /// Answers the client in the form of the OpenAI API.
    pub(super) fn refuse(&mut self, vm: &Vm, host: &impl Host, said: &Said, refusal: &Refusal) -> Next {
        vm.counters.count(host, Counter::Refused);
        let kind = if refusal.status == 400 { "invalid_request_error" } else { "overloaded_error" };
        let body = serde_json::json!({
            "error": {"message": refusal.message, "type": kind, "param": null, "code": refusal.status}
        });
        let state = serde_json::json!({
            "refused": refusal.status, "reason": refusal.message, "policy": said.policy, "rule": said.rule
        });
        host.set_filter_state(names::DECISION_STATE, state.to_string().as_bytes());
        let seconds = refusal.retry_after_seconds.map(|seconds| seconds.to_string());
        let mut headers = vec![("content-type", "application/json")];
        if let Some(seconds) = &seconds {
            headers.push(("retry-after", seconds.as_str()));
        }
        self.state = State::Over;
        host.reply(u32::from(refusal.status), &headers, body.to_string().as_bytes());
        Next::Answered
    }
}
