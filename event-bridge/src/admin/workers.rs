//! Workers and their targets.

use axum::extract::State;
use kv_routing::target::TargetId;
use serde_json::{Value, json};

use super::reply::{Reply, ok};
use super::state::AdminState;
use crate::config::{EventFeed, EventStream};
use crate::cross_check::{Counts, Outcome};
use crate::ingest::{Finding, ParityCounts, SourceReport};
use crate::pool::{Member, MemberTarget, PoolGone, PoolSnapshot, TokenizerStatus};
use crate::stream::StreamStats;

pub(super) async fn workers(State(state): State<AdminState>) -> Result<Reply, PoolGone> {
    let pools: Vec<Value> = state.snapshots().await?.iter().map(pool).collect();
    Ok(ok(json!({ "pools": pools })))
}

fn pool(pool: &PoolSnapshot) -> Value {
    let workers: Vec<Value> = pool.members.iter().map(|member| worker(pool, member)).collect();
    json!({
        "name": pool.name,
        "settled": pool.settled,
        "table_version": pool.table_version,
        "block_size": pool.block_size.map(|size| size.tokens()),
        "expected_block_size": pool.expected_block_size.map(|size| size.tokens()),
        "tokenizer": tokenizer(&pool.tokenizer),
        "chats_problem": pool.chats_problem,
        "workers_error": pool.workers_error,
        "eds_error": pool.eds_error,
        "workers": workers,
    })
}

fn tokenizer(status: &TokenizerStatus) -> Value {
    match status {
        TokenizerStatus::NotConfigured => json!({ "status": "not_configured" }),
        TokenizerStatus::Loading => json!({ "status": "loading" }),
        TokenizerStatus::Loaded(reference) => {
            json!({ "status": "loaded", "id": format!("{:016x}", reference.id), "bytes": reference.bytes })
        }
        TokenizerStatus::Bridge(why) => json!({ "status": "bridge", "why": why }),
        TokenizerStatus::Failed(error) => json!({ "status": "failed", "error": error }),
    }
}

fn worker(pool: &PoolSnapshot, member: &Member) -> Value {
    let targets: Vec<Value> = member.targets.iter().map(|one| target(pool, member, one)).collect();
    json!({
        "address": member.spec.address.to_string(),
        "role": member.role().as_str(),
        "labels": member.spec.labels,
        "health": member.table_health().as_str(),
        "health_error": member.health_error,
        "load_error": member.load_error,
        "events_error": member.events_error,
        "drain": member.spec.drain,
        "leaving": member.leaving.is_some(),
        "in_endpoint_file": member.listed,
        "in_target_table": member.in_table(),
        "handoff_error": member.handoff_error,
        "restarts": member.restarts,
        "engine_check": pool.checks_with_engine.then(|| engine_check(pool.checks.get(&member.spec.address))),
        "process_start": member.load.process_start,
        "targets": targets,
    })
}

/// Whether the engine computes what is hashed here.
fn engine_check(outcome: Option<&Outcome>) -> Value {
    match outcome {
        None => json!({ "status": "pending" }),
        Some(Outcome::Agrees(Counts { equal, tokens, refused, unanswered })) => json!({
            "status": Outcome::AGREES,
            "equal": equal,
            "tokens": tokens,
            "refused_by_both": refused,
            "unanswered": unanswered,
        }),
        Some(Outcome::Differs(difference)) => json!({
            "status": Outcome::DIFFERS,
            "why": difference.to_string(),
            "prompt": difference.prompt,
            "differs_at_token": difference.at,
            "filter_tokens": difference.ours.as_ref().ok(),
            "engine_tokens": difference.theirs,
        }),
        Some(Outcome::Unanswered { why, again }) => {
            json!({ "status": Outcome::UNANSWERED, "why": why, "again": again })
        }
    }
}

fn target(pool: &PoolSnapshot, member: &Member, target: &MemberTarget) -> Value {
    let load = member.load.of(target.spec.rank);
    let source = pool.sources.get(&target.slot);
    json!({
        "id": TargetId::of(&member.spec.address.to_string(), target.spec.rank).to_string(),
        "slot": target.slot.0,
        "rank": target.spec.rank,
        "running": load.running,
        "waiting": load.waiting,
        "kv_usage": load.kv_usage,
        "bootstrap": member.bootstrap(target.spec.rank).map(|bootstrap| json!({
            "address": format!("{}:{}", bootstrap.host, bootstrap.port),
            "ranks": bootstrap.ranks,
            "engine_id": bootstrap.engine_id,
        })),
        "capacity_tokens": load.capacity_tokens,
        "state": target.source.0.as_str(),
        "state_since_unix_ms": target.source.1.0,
        "reason": source.map(|(report, _)| report.reason.as_str()),
        "events": target.spec.events.as_ref().map(feed),
        "source": source.map(|(report, stats)| events(report, stats)),
        "parity": source.map(|(report, _)| parity(report, pool.findings.get(&target.slot))),
    })
}

fn feed(feed: &EventFeed) -> Value {
    match feed {
        EventFeed::Socket(EventStream { endpoint, replay, topic, bind }) => {
            json!({ "endpoint": endpoint, "replay": replay, "topic": topic, "bind": bind })
        }
        EventFeed::Polled { url } => json!({ "polled": url }),
    }
}

fn events(report: &SourceReport, stats: &StreamStats) -> Value {
    json!({
        "last_seq": report.last_seq,
        "last_applied_ms_ago": report.last_applied.map(|at| at.elapsed().as_millis() as u64),
        "last_batch_time": report.last_batch_time,
        "lag_ms": report.lag.map(|lag| lag.as_secs_f64() * 1000.0),
        "batches": report.batches,
        "events": report.events,
        "stored_blocks": report.stored_blocks,
        "removed_blocks": report.removed_blocks,
        "unknown_removals": report.unknown_removals,
        "gaps": report.gaps,
        "checks": report.checks,
        "restarts": report.restarts,
        "losses": report.losses,
        "duplicate_batches": report.duplicate_batches,
        "clears": report.clears,
        "undecodable": report.undecodable,
        "unknown_events": report.unknown_events,
        "hash_conflicts": report.hash_conflicts,
        "unindexable": report.unindexable,
        "engine_blocks": report.pages,
        "orphans": report.orphans,
        "orphans_dropped": report.orphans_dropped,
        "held_batches": report.held_batches,
        "page_tokens": report.page_tokens,
        "rank_mismatches": report.rank_mismatches,
        "stream": {
            "backlog_messages": stats.backlog_messages,
            "backlog_bytes": stats.backlog_bytes,
            "dropped": stats.dropped,
            "received": stats.received,
            "connects": stats.connects,
            "connect_failures": stats.connect_failures,
            "peer": stats.peer.map(|peer| peer.to_string()),
        },
    })
}

/// How prompts that the target answered compare with what it announced.
fn parity(report: &SourceReport, finding: Option<&Finding>) -> Value {
    let ParityCounts { matched, missing, open } = report.parity;
    let difference = finding.map(|finding| {
        json!({
            "cause": finding.cause.as_str(),
            "advice": finding.cause.advice(),
            "agreed_blocks": finding.agreed_blocks,
            "differs_before_block": finding.differs_before,
            "filter_tokens": finding.filter_tokens,
            "engine_tokens": finding.engine_tokens,
            "engine_page_tokens": finding.engine_page,
        })
    });
    json!({ "matched": matched, "missing": missing, "open": open, "difference": difference })
}
