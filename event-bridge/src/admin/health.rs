//! Liveness, readiness, metrics, and the Envoys.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::policy;
use super::reply::{Reply, error, ok};
use super::state::AdminState;
use crate::metrics;
use crate::pool::{PoolGone, PoolSnapshot};
use crate::publish::{EnvoyStatus, LinkState};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn healthz(State(state): State<AdminState>) -> Result<Reply, PoolGone> {
    state.snapshots().await?;
    Ok(ok(json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "epoch": state.epoch().0,
        "uptime_seconds": state.started().elapsed().as_secs(),
    })))
}

pub(super) async fn readyz(State(state): State<AdminState>) -> Result<Reply, PoolGone> {
    let missing = missing(&state.snapshots().await?, &state.envoys());
    Ok(if missing.is_empty() {
        ok(json!({ "status": "ready" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({ "status": "not ready", "missing": missing })))
    })
}

/// What readiness lacks: a pool that is not settled, an Envoy that can be reached and does not hold every pool, or an
/// Envoy that can be reached at all.
fn missing(pools: &[PoolSnapshot], envoys: &[EnvoyStatus]) -> Vec<String> {
    let unsettled = pools.iter().filter(|pool| !pool.settled);
    let mut missing: Vec<String> = unsettled
        .map(|pool| match &pool.workers_error {
            Some(error) => format!("pool {}: {error}", pool.name),
            None => format!("pool {}: not settled yet", pool.name),
        })
        .collect();
    for envoy in envoys {
        match envoy.state {
            LinkState::Waiting | LinkState::Filling => {
                missing.push(format!("envoy {}: {}", envoy.name, envoy.state.as_str()));
            }
            LinkState::InSync => {
                let lacking = pools.iter().zip(&envoy.tables).filter(|(_, table)| **table == 0);
                missing.extend(lacking.map(|(pool, _)| format!("envoy {}: lacks pool {}", envoy.name, pool.name)));
            }
            LinkState::Unreachable | LinkState::Superseded => {}
        }
    }
    if envoys.iter().all(|envoy| envoy.state == LinkState::Unreachable) {
        let reason = |envoy: &EnvoyStatus| format!("envoy {}: {}", envoy.name, envoy.error.as_deref().unwrap_or(""));
        missing.extend(envoys.iter().map(reason));
    }
    missing
}

pub(super) async fn metrics(State(state): State<AdminState>) -> Result<Response, PoolGone> {
    let pools = state.snapshots().await?;
    let text = metrics::text(state.metrics(), &pools, &state.envoys(), policy::tally(&state, &pools).as_ref());
    Ok(match text {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, failed.to_string()).into_response(),
    })
}

pub(super) async fn envoys(State(state): State<AdminState>) -> Reply {
    ok(json!({ "envoys": state.envoys().iter().map(envoy).collect::<Vec<_>>() }))
}

fn envoy(status: &EnvoyStatus) -> Value {
    let row = |(number, row): &(u32, kv_routing::wire::LoadRow)| {
        let requests: u64 = row.entries.iter().map(|entry| u64::from(entry.booking.requests)).sum();
        json!({
            "row": number,
            "written_unix_ms": row.written.0,
            "generation": row.generation.0,
            "policy_version": row.policy_version,
            "requests": requests,
        })
    };
    json!({
        "name": status.name,
        "state": status.state.as_str(),
        "error": status.error,
        "epoch": status.in_place.map(|(epoch, _)| epoch.0),
        "generation": status.in_place.map(|(_, generation)| generation.0),
        "tables": status.tables,
        "tokenizers": status.tokenizers.iter().map(|id| format!("{id:016x}")).collect::<Vec<_>>(),
        "last_reply_ms_ago": status.last_reply.map(|at| at.elapsed().as_millis() as u64),
        "load_rows": status.load_rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::test_status;

    #[test]
    fn readiness_needs_what_can_be_had() {
        let status = |state| test_status(state);
        assert!(missing(&[], &[]).is_empty(), "a bridge without Envoys only watches");
        assert!(missing(&[], &[status(LinkState::InSync), status(LinkState::Unreachable)]).is_empty());
        assert_eq!(missing(&[], &[status(LinkState::Unreachable)]).len(), 1);
        assert_eq!(missing(&[], &[status(LinkState::InSync), status(LinkState::Filling)]).len(), 1);
    }
}
