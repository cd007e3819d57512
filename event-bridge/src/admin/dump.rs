//! The whole index of a pool, streamed as JSON lines.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use kv_routing::target::Tier;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::reply::error;
use super::state::AdminState;
use crate::pool::{Holding, IndexDump, PoolHandle};

/// Lines gathered into one piece of the answer.
const LINES: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    pool: Option<String>,
}

pub(super) async fn dump(State(state): State<AdminState>, Query(which): Query<Which>) -> Response {
    let pool = match find(&state, which.pool.as_deref()) {
        Ok(pool) => pool,
        Err(message) => return error(StatusCode::BAD_REQUEST, message).into_response(),
    };
    let Ok(permit) = state.dumps().try_acquire_owned() else {
        return error(StatusCode::TOO_MANY_REQUESTS, "another dump is under way").into_response();
    };
    let dump = match pool.dump().await {
        Ok(dump) => dump,
        Err(gone) => return gone.into_response(),
    };
    let (tx, rx) = mpsc::channel(4);
    tokio::spawn(async move {
        for piece in dump.holdings.chunks(LINES) {
            // Fails when the reader has gone.
            if tx.send(lines(&dump, piece)).await.is_err() {
                break;
            }
        }
        drop(permit);
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::new(Pieces(rx))).into_response()
}

fn find<'a>(state: &'a AdminState, name: Option<&str>) -> Result<&'a PoolHandle, String> {
    let names = || state.pools().iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, state.pools()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("name one of the pools with ?pool=: {}", names())),
        (Some(name), pools) => {
            pools.iter().find(|pool| pool.name == name).ok_or_else(|| format!("no pool {name}; there are: {}", names()))
        }
    }
}

fn lines(dump: &IndexDump, holdings: &[Holding]) -> Bytes {
    let mut text = String::with_capacity(holdings.len() * 100);
    for holding in holdings {
        let Holding { slot, tier, block, depth } = holding;
        let target = dump.targets.get(slot);
        let tier = match tier {
            Tier::Device => "device",
            Tier::Host => "host",
            Tier::Disk => "disk",
        };
        let line = json!({
            "worker": target.map(|target| target.0.to_string()),
            "rank": target.and_then(|target| target.1),
            "tier": tier,
            "sequence_hash": block.to_string(),
            "depth": depth,
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    Bytes::from(text)
}

/// Pieces of an answer as they come.
struct Pieces(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}
