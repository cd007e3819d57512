//! What becomes of a request whose prefill did not work out.

use kv_routing::policy::{Refusal, Whole, serves_whole};

use super::Handing;
use crate::counters::Counter;
use crate::flow::{Flow, Next, Unrouted, millis};
use crate::host::Host;
use crate::vm::Vm;

/// Prefill targets tried.
const ATTEMPTS: usize = 2;

impl Flow {
    /// A prefill was not made, for a reason counted as `why`: once more elsewhere, else whole, else refused.
    pub(super) fn prefill_failed(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        mut handing: Box<Handing>,
        why: Counter,
    ) -> Next {
        vm.counters.count(host, why);
        handing.end_call(vm, host, false, true);
        if handing.tries < ATTEMPTS && handing.book_prefill(vm, host).is_some() {
            return self.send_prefill(vm, host, handing);
        }
        if handing.rules.aggregated_fallback {
            self.serve_whole(vm, host, handing, Whole::Failed)
        } else {
            self.refuse_prefill(vm, host, *handing)
        }
    }

    /// Sends the client's own body to the decode target, if that can do without a prefill.
    pub(super) fn serve_whole(&mut self, vm: &mut Vm, host: &impl Host, mut handing: Box<Handing>, why: Whole) -> Next {
        let targets = &handing.asked.pool.targets;
        if !serves_whole(handing.protocol(), targets, &handing.decode) {
            return self.refuse_prefill(vm, host, *handing);
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

    pub(super) fn refuse_prefill(&mut self, vm: &mut Vm, host: &impl Host, handing: Handing) -> Next {
        let said = handing.said.clone();
        handing.end(vm, host);
        let message = "prefill: no prefill worker could take this request".to_owned();
        self.refuse(vm, host, &said, &Refusal { status: 503, retry_after_seconds: Some(1), message })
    }
}
