//! What a pool wants Envoys to hold, pages excepted, and when that changed enough to be told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kv_routing::wire::{BridgeShare, PoolId, PoolManifest, TargetTable, TokenizerRef, WireError};
use tokio::time::Instant;

use super::table;
use crate::config::PoolConfig;
use crate::publish::{PoolView, TokenizerParts};

/// Changes of nothing but engine load are told at most this often.
const LOAD_EVERY: Duration = Duration::from_millis(250);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct View {
    version: u64,
    table: Option<(TargetTable, Bytes)>,
    told_at: Option<Instant>,
    block_size: Option<u32>,
    tokenizer: Option<TokenizerRef>,
    bridge: BridgeShare,
    settled: bool,
}

/// What can change besides the table.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) block_size: Option<u32>,
    pub(super) tokenizer: Option<Arc<TokenizerParts>>,
    pub(super) bridge: BridgeShare,
    pub(super) settled: bool,
}

/// What came of looking at a new table.
#[derive(Debug)]
pub(super) enum Told {
    /// Nothing worth telling has changed.
    Same,
    /// Only engine load has changed, and the last change was told a moment ago.
    Later,
    /// This is to be told.
    Now(Box<PoolView>),
}

impl View {
    /// Version of the target table told last; 0 before the first.
    pub(super) fn table_version(&self) -> u64 {
        self.version
    }

    /// Block size told last.
    pub(super) fn block_size(&self) -> Option<u32> {
        self.block_size
    }

    /// Tokenizer told last.
    pub(super) fn tokenizer(&self) -> Option<TokenizerRef> {
        self.tokenizer
    }

    /// What the bridge tokenizes, as told last.
    pub(super) fn bridge(&self) -> BridgeShare {
        self.bridge
    }

    /// Whether the pool was settled when it was told last; it stays so.
    pub(super) fn settled(&self) -> bool {
        self.settled
    }

    /// Compares with what was told last.
    ///
    /// # Errors
    /// [`WireError`] when the table cannot be encoded.
    pub(super) fn update(
        &mut self,
        (id, config): (PoolId, &PoolConfig),
        table: TargetTable,
        facts: Facts,
        now: Instant,
    ) -> Result<Told, WireError> {
        let Facts { block_size, tokenizer, bridge, settled } = facts;
        let reference = tokenizer.as_ref().map(|parts| parts.reference);
        let facts_differ =
            (block_size, reference, bridge, settled) != (self.block_size, self.tokenizer, self.bridge, self.settled);
        let (differs, only_load) = match &self.table {
            None => (true, false),
            Some((old, _)) => (*old != table, !table::differ_in_substance(old, &table)),
        };
        let load_due = self.told_at.is_none_or(|at| now.duration_since(at) >= LOAD_EVERY);
        if differs && (!only_load || load_due) {
            let bytes = Bytes::from(table.encode()?);
            self.table = Some((table, bytes));
            self.version += 1;
            self.told_at = Some(now);
        } else if !facts_differ {
            return Ok(if differs { Told::Later } else { Told::Same });
        }
        (self.block_size, self.tokenizer, self.bridge, self.settled) = (block_size, reference, bridge, settled);
        let table = self.table.as_ref().map(|table| table.1.clone()).unwrap_or_default();
        let handoff = config.handoff.protocol_of(self.table.as_ref().map_or(&[], |(table, _)| &table.targets));
        let manifest = PoolManifest { handoff, ..manifest(id, config, block_size, bridge) };
        let view = PoolView { manifest, table, table_version: self.version, tokenizer, settled };
        Ok(Told::Now(Box::new(view)))
    }
}

fn manifest(id: PoolId, config: &PoolConfig, block_size: Option<u32>, bridge: BridgeShare) -> PoolManifest {
    PoolManifest {
        id,
        name: config.name.clone(),
        models: config.models.clone(),
        adapters: config.adapters.clone(),
        block_size,
        // The publisher fills these in, by what the Envoy has received.
        page_bits: 0,
        tokenizer: None,
        bridge,
        cluster: config.cluster.clone(),
        handoff: config.handoff.protocol,
        prefill_cluster: config.handoff.cluster.clone(),
        stale_after_ms: config.stale.after_ms,
        stale_decay_ms: config.stale.decay_ms,
        predict_ms: config.predict.ms,
        predict_without_events_ms: config.predict.without_events_ms,
    }
}
