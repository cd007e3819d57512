//! An Envoy, and what its requests have booked.

use std::collections::BTreeMap;

use kv_routing::target::TargetId;
use kv_routing::wire::Booking;

use super::{Scrape, flag};
use crate::publish::{EnvoyStatus, LinkState};

impl Scrape {
    pub(super) fn envoy(&mut self, envoy: &EnvoyStatus) {
        for state in LinkState::ALL {
            let labels = vec![("envoy", envoy.name.clone()), ("state", state.as_str().to_owned())];
            let on = flag(envoy.state == state);
            self.gauge(
                "envoy_state",
                "1 for the state that pushing to this Envoy is in, 0 for the others",
                &labels,
                on,
            );
        }
        let mut bookings: BTreeMap<TargetId, Booking> = BTreeMap::new();
        for entry in envoy.load_rows.iter().flat_map(|(_, row)| &row.entries) {
            let sum = bookings.entry(entry.target).or_default();
            sum.requests = sum.requests.saturating_add(entry.booking.requests);
            sum.prefill_tokens = sum.prefill_tokens.saturating_add(entry.booking.prefill_tokens);
            sum.decode_blocks = sum.decode_blocks.saturating_add(entry.booking.decode_blocks);
            sum.failures = sum.failures.saturating_add(entry.booking.failures);
        }
        for (target, booking) in bookings {
            let labels = vec![("envoy", envoy.name.clone()), ("target", target.to_string())];
            let Booking { requests, prefill_tokens, decode_blocks, failures, peak_requests: _ } = booking;
            self.gauge(
                "booked_requests",
                "Requests this Envoy has under way on the target",
                &labels,
                f64::from(requests),
            );
            self.gauge(
                "booked_prefill_tokens",
                "Uncached prompt tokens of this Envoy's requests on the target, before their first byte",
                &labels,
                prefill_tokens as f64,
            );
            self.gauge(
                "booked_decode_blocks",
                "KV blocks of this Envoy's requests on the target",
                &labels,
                decode_blocks as f64,
            );
            self.gauge(
                "booked_failures",
                "Requests of this Envoy that failed on the target since its threads started",
                &labels,
                f64::from(failures),
            );
        }
    }
}
