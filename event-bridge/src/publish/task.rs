//! The task that keeps one Envoy supplied: one push in flight, changes gathered for a few milliseconds, a heartbeat when
//! there are none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kv_routing::wire::Epoch;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::warn;

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
            asking: true,
            publisher: self,
        };
        (rx, task.run(stop))
    }
}

pub(super) struct Task {
    pub(super) publisher: Publisher,
    pub(super) client: IngestClient,
    pub(super) link: Link,
    /// By pool, what became of the pages last taken.
    pub(super) outcomes: Vec<PageOutcome>,
    pub(super) status: watch::Sender<EnvoyStatus>,
    pub(super) backoff: Backoff,
    /// The connection the first part of the snapshot under way went over: state does not outlive a connection for sure.
    pub(super) filled_over: Option<ConnectionId>,
    /// Until when unsettled pools are waited for; `None`: no longer.
    pub(super) settle_by: Option<Instant>,
    pub(super) not_before: Instant,
    pub(super) heartbeat_at: Instant,
    /// It is not known whether this bridge may fill the Envoy: the next push carries nothing and only asks. Parts of a
    /// snapshot cannot ask, since their reply is the same whether they were applied over the state of another bridge or
    /// refused because that one is alive.
    pub(super) asking: bool,
}

/// What a turn ended with.
pub(super) enum Turn {
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

    async fn wait(&mut self, turn: &Turn) {
        if matches!(turn, Turn::Idle) {
            let Publisher { wakes, envoy, .. } = &self.publisher;
            tokio::select! {
                () = wakes.woken(*envoy), if !self.is_superseded() => {}
                () = wakes.asked(*envoy), if !self.is_superseded() && self.settle_by.is_none() => {
                    self.heartbeat_at = Instant::now();
                }
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
        let heartbeat = Instant::now() >= self.heartbeat_at || (self.asking && !self.is_superseded());
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
        if self.asking {
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
        if !self.asking {
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
        let body = match draft.encode(self.publisher.epoch, filling && !self.asking) {
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
                self.replied(&draft, started, connection, reply, filling)
            }
            Err(error) => self.failed(&error),
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

    pub(super) fn set_state(&self, state: LinkState) {
        self.status.send_modify(|status| status.state = state);
    }

    pub(super) fn name(&self) -> &str {
        &self.publisher.config.name
    }
}
