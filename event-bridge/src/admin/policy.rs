//! Route policies: look, put in force, go back, shadow.
//!
//! | call | effect |
//! |---|---|
//! | `GET /policy` | the document in force, the shadow and how it does, the watched file, and which Envoy threads run it |
//! | `PUT /policy` | puts the body in force; `?dry_run=true` only checks it; `?wait_ms=N` waits while a thread is known to run another |
//! | `POST /policy/rollback` | goes back to the one before, or to `?version=N` |
//! | `GET /policy/history` | the last 16, newest first; `GET /policy/history/N` the text of one |
//! | `PUT /policy/shadow?sample=0.1` | evaluates the body for a share of the requests, without effect; `DELETE` ends that |
//!
//! `everywhere` is true when every thread of every Envoy has said that it runs the document; of each Envoy, `policy` is `running`,
//! `pending` (it holds or runs another one), `unknown` (no thread has routed yet, or another bridge supplies it) or `unreachable`.
//!
//! A refused document is answered 422 with the JSON pointer of each problem. Who makes a change is told by header
//! `x-policy-author`.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kv_routing::target::TargetId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::reply::{Reply, error, ok};
use super::running::{everywhere, is_pending, shown};
use super::state::AdminState;
use crate::policy::{Entry, Refused, TallySummary};
use crate::pool::{Member, PoolGone, PoolSnapshot};

/// Longest wait for Envoy threads.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Time between two looks at their load rows.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const AUTHOR: &str = "x-policy-author";
const MAX_AUTHOR: usize = 128;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutOptions {
    #[serde(default)]
    dry_run: bool,
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RollbackOptions {
    version: Option<u64>,
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShadowOptions {
    sample: f64,
}

pub(super) async fn show(State(state): State<AdminState>) -> Result<Reply, PoolGone> {
    let tally = tally(&state, &state.snapshots().await?);
    let (in_force, shadow, published) = state.policies().read(|desk| {
        let in_force = desk.in_force().map(|entry| with_text(json!(entry), entry.text()));
        let shadow = desk.shadow().map(|entry| {
            let mut shown = with_text(json!(entry), entry.text());
            if let Some(shown) = shown.as_object_mut() {
                shown.insert("tally".into(), json!(tally));
            }
            shown
        });
        (in_force, shadow, desk.document().map_or(0, |document| document.version))
    });
    let file = state.policies().file();
    Ok(ok(json!({
        "in_force": in_force,
        "shadow": shadow,
        "published": published,
        "file": {
            "path": file.path,
            "refused": file.refused.map(|Refused(problems)| problems),
            "unreadable": file.unreadable,
        },
        "envoys": shown(&state.envoys(), published),
    })))
}

/// How the shadow does, if there is one.
pub(super) fn tally(state: &AdminState, pools: &[PoolSnapshot]) -> Option<TallySummary> {
    let ids = |member: &Member| {
        let address = member.spec.address.to_string();
        member.targets.iter().map(|target| TargetId::of(&address, target.spec.rank)).collect::<Vec<_>>()
    };
    let targets: Vec<TargetId> = pools.iter().flat_map(|pool| &pool.members).flat_map(ids).collect();
    state.policies().tally(&targets)
}

pub(super) async fn put(
    State(state): State<AdminState>,
    Query(options): Query<PutOptions>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    if options.dry_run {
        return match state.policies().check(&body) {
            Ok(warnings) => ok(json!({ "dry_run": true, "warnings": warnings })),
            Err(problems) => refused(problems),
        };
    }
    match state.policies().put(&body, &author(&headers)) {
        Ok(entry) => in_force(&state, &entry, options.wait_ms).await,
        Err(problems) => refused(problems),
    }
}

pub(super) async fn rollback(
    State(state): State<AdminState>,
    Query(options): Query<RollbackOptions>,
    headers: HeaderMap,
) -> Reply {
    match state.policies().rollback(options.version, &author(&headers)) {
        Ok(entry) => in_force(&state, &entry, options.wait_ms).await,
        Err(failed) => error(StatusCode::NOT_FOUND, failed.to_string()),
    }
}

pub(super) async fn history(State(state): State<AdminState>) -> Reply {
    ok(state.policies().read(|desk| json!({ "documents": desk.history().collect::<Vec<_>>() })))
}

pub(super) async fn document(State(state): State<AdminState>, Path(version): Path<u64>) -> Response {
    let found = state
        .policies()
        .read(|desk| desk.history().find(|entry| entry.version == version).map(|entry| entry.text().to_vec()));
    match found {
        Some(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        None => error(StatusCode::NOT_FOUND, format!("no document of version {version} is remembered")).into_response(),
    }
}

pub(super) async fn set_shadow(
    State(state): State<AdminState>,
    Query(ShadowOptions { sample }): Query<ShadowOptions>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    if !(0.0..=1.0).contains(&sample) {
        return error(StatusCode::BAD_REQUEST, format!("sample is {sample}, must be from 0 to 1"));
    }
    match state.policies().set_shadow(&body, (sample * 1e6).round() as u32, &author(&headers)) {
        Ok(entry) => ok(json!({ "shadow": entry })),
        Err(problems) => refused(problems),
    }
}

pub(super) async fn drop_shadow(State(state): State<AdminState>) -> Reply {
    ok(json!({ "dropped": state.policies().drop_shadow() }))
}

fn refused(Refused(problems): Refused) -> Reply {
    let message = "the policy document is refused, the old one stays in force";
    (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "error": message, "problems": problems })))
}

/// The answer to a change, when nothing more can be learned of who runs it or the wait is over.
async fn in_force(state: &AdminState, entry: &Entry, wait_ms: Option<u64>) -> Reply {
    let deadline = Instant::now() + wait_ms.map(Duration::from_millis).unwrap_or_default().min(MAX_WAIT);
    loop {
        // Should a document follow this one meanwhile, that is the one to wait for.
        let published = state.policies().read(|desk| desk.document().map_or(0, |document| document.version));
        let envoys = state.envoys();
        if !is_pending(&envoys, published) || Instant::now() >= deadline {
            return ok(json!({
                "in_force": entry,
                "everywhere": everywhere(&envoys, published),
                "envoys": shown(&envoys, published),
            }));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn with_text(mut value: Value, text: &[u8]) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.insert("document".into(), serde_json::from_slice(text).unwrap_or(Value::Null));
    }
    value
}

fn author(headers: &HeaderMap) -> String {
    let named = headers.get(AUTHOR).and_then(|value| value.to_str().ok()).filter(|name| !name.is_empty());
    named.unwrap_or("api").chars().take(MAX_AUTHOR).collect()
}
