//! The task that keeps one Envoy supplied: one push in flight, changes gathered for a few milliseconds, a heartbeat when
//! there are none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kv_routing::wire::{Decision, Epoch, PushReply};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::client::{ConnectionId, IngestClient};
use super::desired::{Catalog, Desired};
use super::draft::Draft;
use super::error::PushError;
use super::link::Link;
use super::pace::{Backoff, gap};
use super::status::{EnvoyStatus, LinkState};
use super::wake::{EnvoyIndex, Wakes};
use crate::clock;
use crate::config::{EnvoyConfig, PushConfig};
use crate::metrics::Metrics;
use crate::pool::{PageOutcome, PoolGone, PoolHandle};

/// A new bridge replaces what its predecessor left in an Envoy at the latest after this time.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// At shutdown the last changes get this long to be pushed.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// Pause before a snapshot that did not take is sent again.
const REFILL_PAUSE: Duration = Duration::from_millis(500);
/// Pages are asked of a pool only if this much room is left.
const LEAST_ROOM: usize = 16 << 10;

/// Everything a publisher works with.
#[derive(Debug)]
pub struct Publisher {
    /// Which Envoy.
    pub envoy: EnvoyIndex,
    /// Its configuration.
    pub config: EnvoyConfig,
    /// Timing.
    pub push: PushConfig,
    /// Epoch of this process.
    pub epoch: Epoch,
    /// What Envoys should hold.
    pub catalog: Catalog,
    /// Alarms.
    pub wakes: Wakes,
    /// Pools, by number.
    pub pools: Vec<PoolHandle>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Publisher {
    /// Runs until `stop`, then pushes what is left. The receiver shows how it goes.
    pub fn start(self, stop: CancellationToken) -> (watch::Receiver<EnvoyStatus>, impl Future<Output = ()>) {
        let status = EnvoyStatus::new(self.config.name.clone(), self.pools.len());
        let (tx, rx) = watch::channel(status);
        let client = IngestClient::new(self.config.clone(), self.push.timeout);
        let now = Instant::now();
        let task = Task {
            link: Link::new(self.epoch, self.pools.len()),
            outcomes: vec![PageOutcome::Wiped; self.pools.len()],
            client,
            status: tx,
            backoff: Backoff::default(),
            filled_over: None,
            settle_by: Some(now + SETTLE_LIMIT),
            not_before: now,
            heartbeat_at: now,
            superseded: false,
            publisher: self,
        };
        (rx, task.run(stop))
    }
}

struct Task {
    publisher: Publisher,
    client: IngestClient,
    link: Link,
    /// By pool, what became of the pages last taken.
    outcomes: Vec<PageOutcome>,
    status: watch::Sender<EnvoyStatus>,
    backoff: Backoff,
    /// The connection the first part of the snapshot under way went over: state does not outlive a connection for sure.
    filled_over: Option<ConnectionId>,
    /// Until when unsettled pools are waited for; `None`: no longer.
    settle_by: Option<Instant>,
    not_before: Instant,
    heartbeat_at: Instant,
    superseded: bool,
}

/// What a turn ended with.
enum Turn {
    /// Nothing is left to push.
    Idle,
    /// There is more.
    More,
    /// The pools are gone.
    Over,
}

impl Task {
    async fn run(mut self, stop: CancellationToken) {
        let mut turn = Turn::Idle;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.wait(&turn) => {}
            }
            // Never cancelled half way: what a pool handed out must be accounted for.
            turn = self.turn().await;
            if matches!(turn, Turn::Over) {
                return;
            }
        }
        self.flush().await;
    }

    async fn wait(&self, turn: &Turn) {
        if matches!(turn, Turn::Idle) {
            tokio::select! {
                () = self.publisher.wakes.woken(self.publisher.envoy), if !self.superseded => {}
                () = sleep_until(self.heartbeat_at) => {}
            }
        }
        sleep_until(self.not_before).await;
    }

    async fn turn(&mut self) -> Turn {
        let desired = self.publisher.catalog.desired();
        if !self.settled(&desired) {
            return Turn::Idle;
        }
        let heartbeat = Instant::now() >= self.heartbeat_at;
        let draft = match self.draft(&desired).await {
            Ok(draft) => draft,
            Err(PoolGone) => return Turn::Over,
        };
        self.finish(draft, &desired, heartbeat).await
    }

    /// Whether pools are ready to replace what a predecessor left.
    fn settled(&mut self, desired: &Desired) -> bool {
        let Some(limit) = self.settle_by else { return true };
        let settled = desired.pools.iter().all(|view| view.as_ref().is_some_and(|view| view.settled));
        if !settled && Instant::now() < limit {
            self.heartbeat_at = limit;
            return false;
        }
        if !settled {
            warn!(envoy = self.name(), "pools did not settle in time, publishing what there is");
        }
        self.settle_by = None;
        self.set_state(LinkState::Filling);
        true
    }

    async fn draft(&mut self, desired: &Desired) -> Result<Draft, PoolGone> {
        if self.superseded {
            return Ok(Draft::default());
        }
        let mut draft = self.link.draft(desired);
        for (at, pool) in self.publisher.pools.iter().enumerate() {
            let Some(outcome) = self.outcomes.get_mut(at) else { continue };
            if draft.room() < LEAST_ROOM {
                draft.more = true;
                break;
            }
            let batch = pool.pages(self.publisher.envoy, *outcome, draft.room()).await?;
            // Until the reply says otherwise.
            *outcome = PageOutcome::Lost;
            draft.more |= batch.more;
            draft.oldest_events.extend(batch.oldest_event);
            self.link.add_pages(&mut draft, at, batch.page_bits, batch.complete, batch.pages);
        }
        Ok(draft)
    }

    async fn finish(&mut self, mut draft: Draft, desired: &Desired, heartbeat: bool) -> Turn {
        let content = !draft.is_empty();
        let filling = self.link.filling();
        let mut news = false;
        if !self.superseded {
            news = match self.link.add_manifest(&mut draft, desired, clock::unix_millis()) {
                Ok(news) => news,
                Err(error) => return self.failed(&PushError::Encode(error)),
            };
        }
        if !content && !news && !heartbeat {
            // The pools have been asked, so their last batches are settled; nothing is under way.
            self.outcomes.fill(PageOutcome::Acknowledged);
            return Turn::Idle;
        }
        let body = match draft.encode(self.publisher.epoch, filling && !self.superseded) {
            Ok(body) => Bytes::from(body),
            Err(error) => return self.failed(&PushError::Encode(error)),
        };
        let (started, bytes) = (Instant::now(), body.len());
        match self.client.push(body).await {
            Ok((connection, reply)) => {
                let took = started.elapsed();
                self.publisher.metrics.pushed(self.name(), bytes, draft.pages, took);
                self.backoff.reset();
                self.not_before = if filling { started } else { started + gap(self.publisher.push.interval, took) };
                self.heartbeat_at = started + self.publisher.push.heartbeat;
                self.replied(&draft, connection, reply, filling)
            }
            Err(error) => self.failed(&error),
        }
    }

    /// A snapshot that is split between two connections may have lost its first part with the first.
    fn broken_fill(&mut self, connection: ConnectionId) -> bool {
        *self.filled_over.get_or_insert(connection) != connection
    }

    fn replied(&mut self, draft: &Draft, connection: ConnectionId, reply: PushReply, filling: bool) -> Turn {
        let PushReply { in_place, need_snapshot, load_rows, decisions, decisions_dropped } = reply;
        self.publisher.metrics.decisions_dropped(self.name(), decisions_dropped);
        self.hand_over(decisions);
        self.status.send_modify(|status| {
            status.in_place = in_place;
            status.load_rows = Arc::new(load_rows);
            status.last_reply = Some(Instant::now());
            status.error = None;
        });
        let ours = in_place.is_some_and(|(epoch, _)| epoch == self.publisher.epoch);
        // A manifest is in place after every push but the earlier parts of a snapshot.
        let settled_push = !filling || draft.manifest.is_some();
        if in_place.is_some() && !ours && !need_snapshot {
            return self.supersede();
        }
        if self.superseded || (settled_push && (need_snapshot || !ours)) || (filling && self.broken_fill(connection)) {
            return self.refill(filling);
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
            let (tables, policy) =
                self.link.covered().map(|covered| (covered.tables.clone(), covered.policy)).unwrap_or_default();
            self.status.send_modify(|status| {
                status.tables = tables;
                status.policy = policy;
                status.state = LinkState::InSync;
            });
        }
        if draft.more || self.link.filling() { Turn::More } else { Turn::Idle }
    }

    fn supersede(&mut self) -> Turn {
        if !self.superseded {
            warn!(
                envoy = self.name(),
                "another bridge that was started later serves this Envoy; this one waits until it is gone"
            );
        }
        self.superseded = true;
        self.outcomes.fill(PageOutcome::Lost);
        self.link.lost();
        self.set_state(LinkState::Superseded);
        Turn::Idle
    }

    /// Starts a snapshot.
    fn refill(&mut self, was_filling: bool) -> Turn {
        if was_filling && !self.superseded {
            // A snapshot that does not take is tried again, slowly.
            warn!(envoy = self.name(), "Envoy lost a snapshot while it was being sent, sending it again");
            self.not_before = Instant::now() + REFILL_PAUSE;
        } else {
            info!(envoy = self.name(), "Envoy needs everything");
        }
        self.publisher.metrics.snapshot(self.name());
        self.superseded = false;
        self.filled_over = None;
        self.link.forget();
        self.outcomes.fill(PageOutcome::Wiped);
        self.set_state(LinkState::Filling);
        Turn::More
    }

    fn failed(&mut self, error: &PushError) -> Turn {
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
        self.link.lost();
        if self.link.filling() {
            self.link.forget();
            self.outcomes.fill(PageOutcome::Wiped);
            self.filled_over = None;
        } else {
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

    /// Pushes the last changes before the bridge ends.
    async fn flush(&mut self) {
        let limit = Instant::now() + FLUSH_LIMIT;
        let flushed = timeout_at(limit, async {
            while let Turn::More = self.turn().await {
                sleep_until(self.not_before).await;
            }
        });
        if flushed.await.is_err() {
            warn!(envoy = self.name(), "the last changes could not be pushed before the end");
        }
    }

    fn set_state(&self, state: LinkState) {
        self.status.send_modify(|status| status.state = state);
    }

    fn name(&self) -> &str {
        &self.publisher.config.name
    }
}
