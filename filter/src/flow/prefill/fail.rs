//! What becomes of a request whose prefill did not work out.

use kv_routing::handoff::HandoffError;
use kv_routing::policy::{Whole, serves_whole};

use super::Handing;
use crate::counters::Counter;
use crate::flow::policy::Said;
use crate::flow::{Flow, Next, Unrouted, millis};
use crate::host::{Host, Severity};
use crate::vm::Vm;

/// Milliseconds between two log lines of a VM about workers that are not set up to hand over.
const WARN_EVERY_MS: u64 = 10_000;

impl Handing {
    /// Counts that its prefill worker is not set up to hand over, and says so in Envoy's log.
    pub(super) fn blame(&self, vm: &mut Vm, host: &impl Host, error: &HandoffError) {
        vm.counters.count(host, Counter::HandoffMisconfigured);
        let now = millis(host.now_nanos());
        if vm.prefills.blamed_at.is_none_or(|last| last.age(now) >= WARN_EVERY_MS) {
            vm.prefills.blamed_at = Some(now);
            let worker = self.prefill_target().map_or("?", |target| &target.endpoint);
            let pool = &self.asked.pool.manifest.name;
            host.log(Severity::Warn, &format!("kv-router: pool {pool}, prefill worker {worker}: {error}"));
        }
    }
}

impl Flow {
    /// A prefill worker is not set up to hand over.
    pub(super) fn cannot_hand_over(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        handing: Box<Handing>,
        error: &HandoffError,
    ) -> Next {
        handing.blame(vm, host, error);
        self.try_again(vm, host, handing)
    }

    /// A prefill call failed.
    pub(super) fn prefill_failed(&mut self, vm: &mut Vm, host: &impl Host, handing: Box<Handing>) -> Next {
        vm.counters.count(host, Counter::HandoffFailed);
        self.try_again(vm, host, handing)
    }

    /// A prefill was not made: once more elsewhere, else whole, else refused.
    fn try_again(&mut self, vm: &mut Vm, host: &impl Host, mut handing: Box<Handing>) -> Next {
        handing.end_call(vm, host, false, true);
        if let Some(target) = handing.prefill_target() {
            vm.prefills.note_failure(target.id, millis(host.now_nanos()));
        }
        if handing.retries < handing.rules.prefill_retries && handing.prefill.take_next() {
            handing.retries += 1;
            if handing.book_prefill(vm, host).is_some() {
                return self.send_prefill(vm, host, handing);
            }
        }
        vm.counters.count(host, Counter::HandoffGivenUp);
        if handing.rules.aggregated_fallback {
            self.serve_whole(vm, host, handing, Whole::Failed)
        } else {
            self.refuse_prefill(vm, host, *handing, Whole::Failed)
        }
    }

    /// Sends the client's own body to the decode target, if that can do without a prefill.
    pub(super) fn serve_whole(&mut self, vm: &mut Vm, host: &impl Host, mut handing: Box<Handing>, why: Whole) -> Next {
        let targets = &handing.asked.pool.targets;
        if !serves_whole(handing.protocol(), targets, &handing.decode) {
            return self.refuse_prefill(vm, host, *handing, why);
        }
        let Some(target) = handing.decode_target() else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        if let Some(booking) = handing.decode_booking.take() {
            vm.ledger.end(booking, false);
        }
        let Handing { asked, prompt, mut said, checkpoints, mut decode, uncached, .. } = *handing;
        decode.prefill_tokens = uncached;
        said.whole = Some(why);
        let now = millis(host.now_nanos());
        self.release_routed(vm, host, asked, &prompt, &decode, &target, &said, checkpoints, now)
    }

    pub(super) fn refuse_prefill(&mut self, vm: &mut Vm, host: &impl Host, handing: Handing, why: Whole) -> Next {
        let said = Said { whole: Some(why), ..handing.said.clone() };
        handing.end(vm, host);
        self.refuse(vm, host, &said, &why.refusal(&said.overload))
    }
}
