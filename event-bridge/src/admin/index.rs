//! Sizes of the indexes.

use axum::extract::State;
use kv_routing::index::IndexStats;
use serde_json::{Value, json};

use super::reply::{Reply, ok};
use super::state::AdminState;
use crate::ingest::SourceReport;
use crate::pool::{PoolGone, PoolSnapshot};

pub(super) async fn stats(State(state): State<AdminState>) -> Result<Reply, PoolGone> {
    let pools: Vec<Value> = state.snapshots().await?.iter().map(pool).collect();
    Ok(ok(json!({ "pools": pools })))
}

fn pool(pool: &PoolSnapshot) -> Value {
    let IndexStats { blocks, runs, holders, holder_blocks, pages, page_bytes, evicted_blocks, bytes } = pool.index;
    let sum = |of: fn(&SourceReport) -> u64| pool.sources.values().map(|(report, _)| of(report)).sum::<u64>();
    json!({
        "name": pool.name,
        "block_size": pool.block_size.map(|size| size.tokens()),
        "blocks": blocks,
        "max_blocks": pool.max_blocks,
        "runs": runs,
        "holders": holders,
        "holder_blocks": holder_blocks,
        "pages": pages,
        "page_bits": pool.page_bits,
        "page_bytes": page_bytes,
        "evicted_blocks": evicted_blocks,
        "bytes": bytes,
        "engine_blocks": sum(|report| report.pages),
        "engine_block_bytes": sum(|report| report.bytes),
        "orphans": sum(|report| report.orphans),
        "orphans_dropped": sum(|report| report.orphans_dropped),
    })
}
