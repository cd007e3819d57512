//! The end of a stream, however it came.

use super::{Flow, State, Unrouted, millis};
use crate::host::Host;
use crate::vm::Vm;

impl Flow {
    /// Gives back what the request had booked. Nothing may be read of the request any more.
    pub(super) fn on_done(&mut self, vm: &mut Vm, host: &impl Host) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Routed(mut routed) => {
                let now = millis(host.now_nanos());
                vm.ledger.end(routed.booking, routed.failed);
                routed.settle(vm, host, false, now);
                routed.end_prefill(vm, host);
                if let Some(unfetched) = routed.by.unfetched {
                    unfetched.forget(vm);
                    if (routed.first_byte || !is_connected(host))
                        && vm.held.call_root(host, &vm.queue, self.root).is_ok()
                    {
                        self.state = State::Freeing(unfetched);
                    }
                }
                vm.rows.touch();
                vm.flush_row(host, now);
            }
            State::Handing(handing) => self.leave(vm, host, handing),
            left @ (State::Left(_) | State::Freeing(_)) => self.state = left,
            State::Reading(..) | State::Preparing(_) | State::Asking(_) => {
                vm.counters.count(host, Unrouted::EndedEarly.counter());
            }
            State::Fresh | State::Passed | State::Over => {}
        }
    }
}

/// Whether Envoy has had a connection to send the request on. (It names the endpoint from the moment in which it begins to connect.)
fn is_connected(host: &impl Host) -> bool {
    host.attribute(&["upstream", "cx_pool_ready_duration"]).is_some_and(|duration| !duration.is_empty())
}
