//! Answering a request that its policy refuses.

use kv_routing::handoff::json_string;
use kv_routing::policy::{PassReason, Refusal, Whole};

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

impl From<Whole> for Counter {
    fn from(why: Whole) -> Self {
        match why {
            Whole::NoPrefill => Self::HandoffNoPrefill,
            Whole::PrefillBusy => Self::HandoffPrefillBusy,
            Whole::NoDecode => Self::HandoffNoDecode,
            Whole::DecodeBusy => Self::HandoffDecodeBusy,
            Whole::Short => Self::HandoffShort,
            Whole::Limit => Self::HandoffOverLimit,
            Whole::Failed => Self::HandoffGivenUp,
            Whole::Finished => Self::HandoffFinished,
        }
    }
}

impl Flow {
    /// Answers the client in the form of the OpenAI API.
    pub(super) fn refuse(&mut self, vm: &Vm, host: &impl Host, said: &Said, refusal: &Refusal) -> Next {
        vm.counters.count(host, Counter::Refused);
        let kind = if refusal.status == 400 { "invalid_request_error" } else { "overloaded_error" };
        let Refusal { status, message, .. } = refusal;
        let message = quoted(message);
        let body = format!(r#"{{"error":{{"message":{message},"type":"{kind}","param":null,"code":{status}}}}}"#);
        let (policy, rule) = (quoted(&said.policy), quoted(&said.rule));
        let mut state = format!(r#"{{"refused":{status},"reason":{message},"policy":{policy},"rule":{rule}"#);
        if let Some(why) = said.whole {
            vm.counters.count(host, Counter::HandoffRefused);
            state.push_str(",\"whole\":");
            state.push_str(&quoted(why.as_str()));
        }
        state.push('}');
        host.set_filter_state(names::DECISION_STATE, state.as_bytes());
        let seconds = refusal.retry_after_seconds.map(|seconds| seconds.to_string());
        let mut headers = vec![("content-type", "application/json")];
        if let Some(seconds) = &seconds {
            headers.push(("retry-after", seconds.as_str()));
        }
        self.state = State::Over;
        host.reply(u32::from(refusal.status), &headers, body.as_bytes());
        Next::Answered
    }
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    String::from_utf8(json_string(text)).unwrap_or_default()
}
