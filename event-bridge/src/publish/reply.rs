//! What a reply, or the lack of one, means for what is sent next.

use std::sync::Arc;
use std::time::Duration;

use kv_routing::wire::{Decision, PushReply};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::client::ConnectionId;
use super::draft::Draft;
use super::error::PushError;
use super::status::LinkState;
use super::task::{Task, Turn};
use crate::pool::PageOutcome;

/// Pause before a snapshot that did not take is sent again.
const REFILL_PAUSE: Duration = Duration::from_millis(500);

impl Task {
    /// A snapshot that is split between two connections may have lost its first part with the first.
    fn broken_fill(&mut self, connection: ConnectionId) -> bool {
        *self.filled_over.get_or_insert(connection) != connection
    }

    pub(super) fn replied(
        &mut self,
        draft: &Draft,
        sent: Instant,
        connection: ConnectionId,
        reply: PushReply,
        filling: bool,
    ) -> Turn {
        let PushReply { in_place, need_snapshot, load_rows, decisions, decisions_dropped } = reply;
        self.publisher.metrics.decisions_dropped(self.name(), decisions_dropped);
        self.hand_over(decisions);
        self.status.send_modify(|status| {
            status.in_place = in_place;
            status.load_rows = Arc::new(load_rows);
            status.rows_as_of = Some(sent);
            status.last_reply = Some(Instant::now());
            status.error = None;
        });
        let ours = in_place.is_some_and(|(epoch, _)| epoch == self.publisher.epoch);
        let others = in_place.is_some() && !ours;
        if !need_snapshot && others && (self.asking || !filling) {
            return self.supersede();
        }
        if self.asking {
            return self.fill();
        }
        if need_snapshot && !filling {
            return self.fill();
        }
        // A manifest of ours is in place after every push but the earlier parts of a snapshot.
        let complete = !filling || draft.manifest.is_some();
        if (complete && (need_snapshot || !ours)) || (filling && self.broken_fill(connection)) {
            return self.fill_again();
        }
        self.link.acknowledged(draft);
        self.outcomes.fill(PageOutcome::Acknowledged);
        for event in &draft.oldest_events {
            self.publisher.metrics.routable(event.elapsed());
        }
        if !self.link.filling() {
            if filling {
                info!(envoy = self.name(), "Envoy holds everything");
            }
            self.filled_over = None;
            let covered = self.link.covered();
            let (tables, tokenizers, policy) = covered
                .map(|covered| (covered.tables.clone(), covered.tokenizers(), covered.policy))
                .unwrap_or_default();
            self.status.send_modify(|status| {
                status.tables = tables;
                status.tokenizers = tokenizers;
                status.policy = policy;
                status.state = LinkState::InSync;
            });
        }
        if draft.more || self.link.filling() { Turn::More } else { Turn::Idle }
    }

    /// Another bridge is alive there: ask again at every heartbeat.
    fn supersede(&mut self) -> Turn {
        if !self.is_superseded() {
            warn!(
                envoy = self.name(),
                "another bridge that was started later serves this Envoy; this one waits until it is gone"
            );
        }
        self.ask();
        self.set_state(LinkState::Superseded);
        Turn::Idle
    }

    /// Begins a snapshot.
    fn fill(&mut self) -> Turn {
        info!(envoy = self.name(), "Envoy needs everything");
        self.publisher.metrics.snapshot(self.name());
        self.ask();
        self.asking = false;
        self.set_state(LinkState::Filling);
        Turn::More
    }

    /// A snapshot did not take: begins anew, after a while.
    fn fill_again(&mut self) -> Turn {
        warn!(envoy = self.name(), "Envoy lost a snapshot while it was being sent, sending it again");
        self.ask();
        self.not_before = Instant::now() + REFILL_PAUSE;
        Turn::More
    }

    /// Nothing is known of what the Envoy holds.
    fn ask(&mut self) {
        self.asking = true;
        self.filled_over = None;
        self.link.forget();
        self.outcomes.fill(PageOutcome::Wiped);
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.status.borrow().state == LinkState::Superseded
    }

    pub(super) fn failed(&mut self, error: &PushError) -> Turn {
        let pause = self.backoff.next(error.needs_operator());
        self.publisher.metrics.push_failed(self.name(), error.kind());
        let text = error.to_string();
        let news = self.status.borrow().error.as_ref() != Some(&text);
        if news {
            warn!(envoy = self.name(), endpoint = %self.publisher.config.endpoint, error = text, "push failed");
        } else {
            debug!(envoy = self.name(), error = text, "push failed again");
        }
        self.status.send_modify(|status| {
            status.error = Some(text);
            status.state = LinkState::Unreachable;
        });
        if self.link.filling() {
            self.ask();
        } else {
            self.link.lost();
            self.outcomes.fill(PageOutcome::Lost);
        }
        self.not_before = Instant::now() + pause;
        Turn::More
    }

    fn hand_over(&self, decisions: Vec<Decision>) {
        let mut by_pool: Vec<Vec<Decision>> = vec![Vec::new(); self.publisher.pools.len()];
        for decision in decisions {
            if let Some(list) = by_pool.get_mut(usize::from(decision.pool.0)) {
                list.push(decision);
            }
        }
        for (pool, list) in self.publisher.pools.iter().zip(by_pool) {
            let count = list.len() as u64;
            if count > 0 && !pool.decisions(list) {
                self.publisher.metrics.decisions_dropped(self.name(), count);
            }
        }
    }
}
