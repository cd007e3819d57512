//! Admin HTTP: health, metrics and the state of everything; policies can be changed.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while every pool's task answers |
//! | `/readyz` | 200 when every Envoy that can be reached holds every pool, 503 with the reasons otherwise |
//! | `/metrics` | Prometheus text |
//! | `/envoys` | how pushing to each Envoy goes |
//! | `/workers` | workers, targets, health, load, state of their event sources |
//! | `/index/stats` | size of each pool's index |
//! | `/policy`, `/policy/...` | route policies, see `policy` |
//! | `POST /explain` | what the filter would do with a request, see `explain` |
//! | `POST /v1/tokenize` | a request's prompt as tokens and block hashes, for filters whose core cannot; see `tokenize` |
//! | `/index` | every (worker, rank, tier, block) of a pool as JSON lines; `?pool=NAME` when there are several |

mod dump;
mod explain;
mod health;
mod index;
mod policy;
mod reply;
mod running;
mod state;
mod tokenize;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post, put};
use kv_routing::wire::TOKENIZE_PATH;

pub use state::AdminState;

/// Largest body read but of prompts: that of a policy document.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Every route.
pub fn router(state: AdminState) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/envoys", get(health::envoys))
        .route("/workers", get(workers::workers))
        .route("/index/stats", get(index::stats))
        .route("/index", get(dump::dump))
        .route("/policy", get(policy::show).put(policy::put))
        .route("/policy/rollback", post(policy::rollback))
        .route("/policy/history", get(policy::history))
        .route("/policy/history/{version}", get(policy::document))
        .route("/policy/shadow", put(policy::set_shadow).delete(policy::drop_shadow))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .route("/explain", post(explain::explain).layer(DefaultBodyLimit::max(explain::MAX_BODY_BYTES)))
        .route(TOKENIZE_PATH, post(tokenize::tokenize).layer(DefaultBodyLimit::max(tokenize::MAX_BODY_BYTES)))
        .with_state(state)
}
