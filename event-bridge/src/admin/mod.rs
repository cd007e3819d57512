//! Admin HTTP: health, metrics and the state of everything, read only.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while every pool's task answers |
//! | `/readyz` | 200 when every Envoy that can be reached holds every pool, 503 with the reasons otherwise |
//! | `/metrics` | Prometheus text |
//! | `/envoys` | how pushing to each Envoy goes |
//! | `/workers` | workers, targets, health, load, state of their event sources |
//! | `/index/stats` | size of each pool's index |
//! | `/index` | every (worker, rank, tier, block) of a pool as JSON lines; `?pool=NAME` when there are several |

mod dump;
mod health;
mod index;
mod reply;
mod state;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;

pub use state::AdminState;

/// No route reads a body so far.
const MAX_BODY_BYTES: usize = 64 << 10;

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
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(state)
}
