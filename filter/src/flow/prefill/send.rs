//! Book both targets, make the prefill call, and let the decode call go where it need not wait.

use kv_routing::handoff::{PREFILLER_HEADER, decode_body, prefill_body};
use kv_routing::policy::document::OverLimit;
use kv_routing::policy::{BookingRequest, Checkpoints, HandoffShown, Rng, Whole};
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::call::Call;
use super::{Handing, transfer};
use crate::counters::Counter;
use crate::flow::book::{HandedBy, Pending, book, book_request};
use crate::flow::release::{Released, count, predicted};
use crate::flow::{Flow, Headers, Next, State, Unrouted, millis};
use crate::host::{Host, HostError};
use crate::names;
use crate::vm::Vm;

/// Headers of the client's request that the prefill call must not have: its body is another, and its answer is read here.
const NOT_SENT: [&str; 2] = ["content-length", "accept-encoding"];

impl Flow {
    /// Sends a request through both phases. A prefill call that is waited for is made by the root context, which Envoy calls back at once.
    pub(in crate::flow) fn hand_over(&mut self, vm: &mut Vm, host: &impl Host, mut handing: Box<Handing>) -> Next {
        let Some(target) = handing.decode_target() else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        if !handing.protocol().calls_prefill() {
            return self.hand_to_sidecar(vm, host, handing, &target);
        }
        handing.body = host.request_body(self.config.max_body_bytes as usize);
        if !vm.prefills.have_room(&handing.rules, handing.body.len() as u64) {
            vm.counters.count(host, Counter::HandoffOverLimit);
            return match handing.rules.over_limit {
                OverLimit::Aggregated => self.serve_whole(vm, host, handing, Whole::Limit),
                OverLimit::Reject => self.refuse_prefill(vm, host, *handing, Whole::Limit),
            };
        }
        handing.headers = host.request_headers();
        if handing.book_prefill(vm, host).is_none() {
            return self.unrouted(vm, host, Unrouted::Internal);
        }
        handing.book_decode(vm, host, &target);
        if handing.protocol().decode_waits() && vm.held.call_root(host, &vm.queue, self.root).is_ok() {
            self.state = State::Handing(handing);
            return Next::AwaitRoot(self.root);
        }
        self.send_prefill(vm, host, handing)
    }

    /// The sidecar at the decode target is told where to prefill.
    fn hand_to_sidecar(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        target: &TargetEntry,
    ) -> Next {
        if handing.book_prefill(vm, host).is_none() {
            return self.unrouted(vm, host, Unrouted::Internal);
        }
        handing.book_decode(vm, host, target);
        if let Some(prefill) = handing.prefill_target() {
            host.set_request_header(PREFILLER_HEADER, prefill.endpoint.as_bytes());
        }
        self.release_decode(vm, host, handing, None)
    }

    /// Sends the prefill to the target it is booked on.
    pub(in crate::flow) fn send_prefill(&mut self, vm: &mut Vm, host: &impl Host, mut handing: Box<Handing>) -> Next {
        let (protocol, random) = (handing.protocol(), handing.random);
        let Some(target) = handing.prefill_target().cloned() else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        let transfer = transfer(&handing.asked.pool, &target, random);
        let sent = match prefill_body(protocol, &handing.body, &transfer) {
            Ok(None) => return self.release_decode(vm, host, handing, None),
            Ok(Some(sent)) => sent,
            Err(error) => return self.cannot_hand_over(vm, host, handing, &error),
        };
        vm.counters.count(host, Counter::HandoffCalls);
        let cluster = &handing.asked.pool.manifest.prefill_cluster;
        let sent = call_engine(host, &handing.headers, cluster, &target, &sent, handing.rules.prefill_timeout_ms);
        let Ok(call) = sent else {
            return self.prefill_failed(vm, host, handing);
        };
        handing.is_sent = true;
        if protocol.decode_waits() {
            self.state = State::Handing(handing);
            return Next::AwaitAnswer(call);
        }
        match decode_body(protocol, &handing.body, &transfer, None) {
            Ok(decode) => {
                self.release_decode(vm, host, handing, decode);
                Next::ReleaseAwaiting(call)
            }
            Err(error) => self.cannot_hand_over(vm, host, handing, &error),
        }
    }

    /// Lets the decode call go, with `body` in place of the client's where there is one.
    pub(super) fn release_decode(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        body: Option<Vec<u8>>,
    ) -> Next {
        let (Some(target), Some(booking)) = (handing.decode_target(), handing.decode_booking.take()) else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        let may_repeat = handing.may_repeat();
        let mut unfetched = None;
        if let Some(body) = body {
            host.set_request_body(&body);
            host.set_request_header("content-length", body.len().to_string().as_bytes());
            host.set_request_header(names::HANDOFF, handing.protocol().as_str().as_bytes());
            if handing.protocol().decode_waits() {
                unfetched = handing.freeing(body).and_then(|freeing| freeing.keep(vm));
            }
        }
        if let Some(retries) = handing.rules.decode_retries {
            host.set_request_header(names::RETRIES, retries.to_string().as_bytes());
        }
        let now = host.now_nanos();
        let Some(prefill) = handing.prefill_target().cloned() else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        vm.counters.count(host, Counter::HandoffDecodes);
        let Handing { asked, prompt, said, prefill: choice, decode, call, pending, waited_us, .. } = *handing;
        count(vm, host, &prompt, &choice, predicted(&asked, &prompt, &choice));
        let handoff = HandoffShown {
            protocol: asked.pool.manifest.handoff.as_str(),
            prefill: &prefill.endpoint,
            rank: prefill.rank,
            overlap: choice.overlap.into(),
            wait_us: waited_us,
        };
        let by = HandedBy { target: Some(prefill.id), at: Some(now), may_repeat, unfetched };
        let released = Released { booking, pending, predicted: None, prefill: call, handoff: Some(handoff), by };
        self.let_go(host, asked, &prompt, &decode, &target, &said, released)
    }
}

impl Handing {
    /// Books the decode on its target.
    fn book_decode(&mut self, vm: &mut Vm, host: &impl Host, target: &TargetEntry) {
        let Self { asked, prompt, decode, checkpoints, .. } = &*self;
        let now = millis(host.now_nanos());
        self.decode_booking = Some(book(vm, asked, prompt, decode, target, checkpoints.clone(), now));
    }

    /// Whether whoever sent the request may repeat it when its two calls at once fail: as often as the policy says.
    fn may_repeat(&self) -> bool {
        let attempt = self.headers.iter().find(|(name, _)| name == names::ATTEMPT);
        let attempt = attempt.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<u8>().ok());
        attempt.unwrap_or(1) <= self.rules.prefill_retries
    }

    /// Books the prefill on its target; `None` when there is none.
    pub(super) fn book_prefill(&mut self, vm: &mut Vm, host: &impl Host) -> Option<()> {
        let target = self.prefill_target()?.clone();
        self.is_sent = false;
        self.random = vm.rng.next_u64();
        let began = host.now_nanos();
        let load = BookingRequest {
            target: target.id,
            blocks: 0,
            prefill_tokens: self.prefill.prefill_tokens.saturating_mul(self.asked.prompts.into()),
            checkpoints: Checkpoints::default(),
        };
        let booking = book_request(vm, load, millis(began));
        vm.flush_row(host, millis(began));
        self.call = Some(if self.protocol().calls_prefill() {
            Call::begin(vm, booking, self.body.len() as u64, began)
        } else {
            let until = UnixMillis(millis(began).0.saturating_add(self.rules.prefill_timeout_ms.into()));
            Call::elsewhere(vm, booking, began, until)
        });
        let Self { asked, prompt, prefill, said, .. } = &*self;
        self.pending = Some(Pending::new(vm, asked, prompt, prefill, &target, said.imagined, millis(began)));
        Some(())
    }
}

/// Calls `target` in `cluster` with `body`, in the name of the client whose request had these `headers`.
pub(super) fn call_engine(
    host: &impl Host,
    headers: &Headers,
    cluster: &str,
    target: &TargetEntry,
    body: &[u8],
    timeout_ms: u32,
) -> Result<u32, HostError> {
    let rank = target.rank.map(|rank| rank.to_string());
    let given = headers.iter().filter(|(name, _)| !NOT_SENT.contains(&name.as_str()));
    let mut pairs: Vec<(&str, &str)> =
        given.filter_map(|(name, value)| Some((name.as_str(), std::str::from_utf8(value).ok()?))).collect();
    pairs.push((names::DESTINATION, &target.endpoint));
    pairs.extend(rank.iter().map(|rank| (names::RANK, rank.as_str())));
    host.call(cluster, &pairs, body, timeout_ms)
}
