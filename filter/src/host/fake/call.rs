//! HTTP calls of the filter, and the answers a test gives them.

use super::{Exchange, FakeHost, ROOT};
use crate::flow::{on_answer, on_root};
use crate::host::{Answer, HostError};
use crate::vm::Vm;

/// An HTTP call on its way.
#[derive(Clone, Debug)]
pub struct FakeCall {
    /// Its number.
    pub number: u32,
    /// The request it was sent for.
    pub context: u32,
    /// The context Envoy had called then, this request or the root one, whose callback the answer comes to.
    pub caller: u32,
    /// Cluster it went to.
    pub cluster: String,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Milliseconds until Envoy answers it with 504.
    pub timeout_ms: u32,
}

/// What a call is answered with.
#[derive(Clone, Debug, Default)]
pub struct FakeAnswer {
    /// Headers, `:status` among them; none when the call was reset.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body.
    pub body: Vec<u8>,
}

impl FakeCall {
    /// A header of the call.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl FakeAnswer {
    /// An answer with a status and a body.
    pub fn of(status: u32, body: &[u8]) -> Self {
        Self { headers: vec![(":status".to_owned(), status.to_string().into_bytes())], body: body.to_vec() }
    }

    /// What a call that was reset is answered with.
    pub fn reset() -> Self {
        Self::default()
    }

    pub(super) fn header(&self, name: &str) -> Option<Vec<u8>> {
        assert!(!self.headers.is_empty(), "headers are read of a call that failed");
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

impl FakeHost {
    /// A cluster that does not exist refuses the call.
    pub(super) fn send(
        &self,
        cluster: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout_ms: u32,
    ) -> Result<u32, HostError> {
        if !self.envoy.clusters.borrow().contains(cluster) {
            return Err(HostError::NoCluster);
        }
        for required in [":method", ":path", ":authority"] {
            assert!(headers.iter().any(|(name, _)| *name == required), "a call without {required}");
        }
        let number = self.next_call.replace(self.next_call.get() + 1);
        let (context, caller) = (self.current(), self.called.get());
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let cluster = cluster.to_owned();
        let body = body.to_vec();
        self.sent.borrow_mut().push(FakeCall { number, context, caller, cluster, headers, body, timeout_ms });
        Ok(number)
    }

    pub(super) fn open_answer<T>(&self, read: impl FnOnce(&FakeAnswer) -> T) -> T {
        match &*self.answer.borrow() {
            Some((context, answer)) if [*context, ROOT].contains(&self.current()) => read(answer),
            _ => panic!("an answer is read outside its callback, or of another request"),
        }
    }

    /// Answers the call `number`, in the callback of the context that made it.
    pub fn answer(&self, vm: &mut Vm, number: u32, answer: FakeAnswer) {
        let at = self.sent.borrow().iter().position(|call| call.number == number);
        let call = self.sent.borrow_mut().remove(at.unwrap_or_else(|| panic!("call {number} is not on its way")));
        let told = Answer { call: number, headers: answer.headers.len(), body: answer.body.len() };
        self.answer.replace(Some((call.context, answer)));
        self.set_current(call.caller);
        on_answer(vm, self, told);
        self.answer.replace(None);
        self.call_roots(vm);
    }

    /// Calls the root context back for what was put into its queues, unless that is to wait.
    pub fn call_roots(&self, vm: &mut Vm) {
        while !self.late_roots.get() {
            let Some(queue) = self.posted.borrow_mut().pop_front() else { return };
            self.set_current(ROOT);
            on_root(vm, self, ROOT, queue);
        }
    }
}

impl Exchange {
    /// The calls this request waits for.
    pub fn calls(&self, host: &FakeHost) -> Vec<FakeCall> {
        host.sent.borrow().iter().filter(|call| call.context == self.context()).cloned().collect()
    }

    /// Answers the call `number` of this request.
    pub fn answer(&self, host: &FakeHost, vm: &mut Vm, number: u32, answer: FakeAnswer) {
        assert!(self.calls(host).iter().any(|call| call.number == number), "call {number} is of another request");
        host.answer(vm, number, answer);
    }
}
