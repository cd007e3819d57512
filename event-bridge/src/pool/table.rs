//! The target table of a pool.

use kv_routing::block::BlockSize;
use kv_routing::target::TargetId;
use kv_routing::wire::{TargetEntry, TargetTable};

use super::member::{Member, MemberTarget};

/// Table of every member that may be in it, in slot order.
pub(super) fn build<'a>(members: impl Iterator<Item = &'a Member>, block_size: Option<BlockSize>) -> TargetTable {
    let mut targets: Vec<TargetEntry> = members
        .filter(|member| member.in_table())
        .flat_map(|member| member.targets.iter().map(move |target| entry(member, target, block_size)))
        .collect();
    targets.sort_by_key(|target| target.slot);
    TargetTable { targets }
}

fn entry(member: &Member, target: &MemberTarget, block_size: Option<BlockSize>) -> TargetEntry {
    let endpoint = member.spec.address.to_string();
    let rank = target.spec.rank;
    let load = member.load.of(rank);
    let (source, source_since) = target.source;
    TargetEntry {
        slot: target.slot,
        id: TargetId::of(&endpoint, rank),
        endpoint,
        rank,
        role: member.role(),
        health: member.table_health(),
        source,
        source_since,
        capacity_blocks: block_size.map_or(0, |size| load.capacity_tokens / u64::from(size.tokens())),
        max_batched_tokens: member.spec.max_batched_tokens.unwrap_or(0),
        running: load.running,
        waiting: load.waiting,
        kv_usage: load.kv_usage,
        labels: member.spec.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        bootstrap: member.bootstrap(rank),
    }
}

/// Whether the two differ in more than engine load, which may wait a little.
pub(super) fn differ_in_substance(one: &TargetTable, other: &TargetTable) -> bool {
    let without_load = |target: &TargetEntry| TargetEntry { running: 0, waiting: 0, kv_usage: 0.0, ..target.clone() };
    !one.targets.iter().map(without_load).eq(other.targets.iter().map(without_load))
}
