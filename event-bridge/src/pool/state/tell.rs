//! What Envoys are to know of the pool: told when it changed, and never before it is known.

use std::time::Duration;

use kv_routing::target::Slot;
use kv_routing::wire::Health;
use tokio::time::Instant;
use tracing::{error, warn};

use super::State;
use crate::ingest::Reason;
use crate::pool::snapshot::TokenizerStatus;
use crate::pool::view::{Facts, Told};
use crate::pool::{Member, table};

/// A pool whose streams have not synchronized this long after its workers became known is taken as it is.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

impl State {
    /// Tells the catalog what has changed, if anything has.
    pub(super) fn tell(&mut self, now: Instant) {
        if self.known_since.is_none() {
            return;
        }
        let block_size = self.ingest.block_size().or(self.config.block_size);
        let settled = self.view.settled() || self.settled(now);
        let tokens = block_size.map(|size| size.tokens());
        let compiled = self.tokenizer_parts.as_ref().map(|parts| parts.reference);
        let bridge = self.bridged.as_ref().map(|bridged| bridged.share).unwrap_or_default();
        if !self.stale
            && (tokens, settled, compiled, bridge)
                == (self.view.block_size(), self.view.settled(), self.view.tokenizer(), self.view.bridge())
        {
            return;
        }
        self.compare_block_sizes();
        let table = table::build(self.membership.members(), block_size);
        let facts = Facts { block_size: tokens, tokenizer: self.tokenizer_parts.clone(), bridge, settled };
        match self.view.update((self.id, &self.config), table, facts, now) {
            Ok(Told::Same) => self.stale = false,
            Ok(Told::Later) => self.stale = true,
            Ok(Told::Now(view)) => {
                self.stale = false;
                self.membership.table_published(view.table_version);
                self.catalog.set_pool(self.id, *view);
            }
            Err(error) => {
                self.stale = false;
                error!(pool = self.config.name, %error, "target table cannot be encoded");
            }
        }
    }

    fn settled(&self, now: Instant) -> bool {
        let Some(since) = self.known_since else { return false };
        let synchronized = |slot: Slot| {
            self.ingest.state(slot).is_none_or(|(_, reason)| {
                !matches!(reason, Reason::NotConnected | Reason::Restored | Reason::Synchronizing | Reason::Checking)
            })
        };
        let probed = |member: &Member| member.health != Health::Unknown || member.health_error.is_some();
        let in_time = now.duration_since(since) < SETTLE_LIMIT;
        let asked = |member: &Member| {
            let unknown = member.spec.ask_sources && !self.sources.knows(member.spec.address);
            !unknown || member.events_error.is_some() || member.health_error.is_some()
        };
        let mut members = self.membership.members();
        let ready = members.all(|member| probed(member) && asked(member)) && self.followed().all(synchronized);
        (ready || !in_time) && self.tokenizer != TokenizerStatus::Loading
    }

    fn compare_block_sizes(&mut self) {
        if let Some((expected, learned)) = self.ingest.block_size_conflict()
            && !std::mem::replace(&mut self.block_size_reported, true)
        {
            let (learned, expected) = (learned.tokens(), expected.tokens());
            warn!(pool = self.config.name, learned, expected, "engines use another block size than configured");
        }
    }
}
