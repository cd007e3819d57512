//! The replay socket: one request at a time, each on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::backlog::Backlog;
use super::endpoint::{Endpoint, EndpointError};
use super::transport::connect;
use super::zmtp::{Connection, ConnectionError, Role};
use super::{ReplayId, Sharing, StreamEvent, StreamSpec};
use crate::engine::{self, FrameError, Replay};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: ReplayId,
    pub(super) from: u64,
}

/// Why a replay ended without its marker.
#[derive(Debug, Error)]
enum ReplayError {
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Frames(#[from] FrameError),
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    #[error("no end marker: nothing more came for {0:?}")]
    Silence(Duration),
    #[error("the stream has no replay endpoint")]
    None,
}

/// Serves requests for ever; a newer one ends the one under way. While it waits for its turn it keeps its place, whatever is
/// asked for in the end.
pub(super) async fn run(
    spec: Arc<StreamSpec>,
    backlog: Arc<Backlog>,
    sharing: Sharing,
    mut requests: watch::Receiver<Option<Request>>,
) {
    while requests.changed().await.is_ok() {
        let _turn = sharing.turn().await;
        let mut next = *requests.borrow_and_update();
        while let Some(request) = next.take() {
            let changed = async {
                if requests.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                result = serve(&spec, &backlog, request) => {
                    let complete = result.is_ok();
                    if let Err(error) = result {
                        let endpoint = spec.replay_endpoint.as_deref().unwrap_or_default();
                        warn!(endpoint, from = request.from, %error, "replay incomplete");
                    }
                    backlog.push(StreamEvent::ReplayEnd { id: request.id, complete });
                }
                () = changed => {
                    debug!(from = request.from, "replay abandoned for a newer one");
                    next = *requests.borrow_and_update();
                }
            }
        }
    }
}

async fn serve(spec: &StreamSpec, backlog: &Backlog, request: Request) -> Result<(), ReplayError> {
    let Request { id, from } = request;
    let endpoint = Endpoint::to_connect(spec.replay_endpoint.as_deref().ok_or(ReplayError::None)?)?;
    let (connecting, silence) = (spec.limits.connect_timeout, spec.limits.replay_silence);
    let begin = async {
        let mut connection = Connection::open(connect(&endpoint).await?, Role::Dealer, spec.limits.frame_bytes).await?;
        let number = Bytes::copy_from_slice(&engine::replay_request(from));
        connection.send(&[Bytes::new(), number]).await?;
        Ok::<_, ReplayError>(connection)
    };
    let mut connection = timeout(connecting, begin).await.map_err(|_| ReplayError::Timeout(connecting))??;
    loop {
        let next = timeout(silence, connection.receive(None)).await;
        let mut frames = next.map_err(|_| ReplayError::Silence(silence))??;
        let seq = match engine::replay(&frames)? {
            Replay::End => return Ok(()),
            Replay::Batch { seq, .. } => seq,
        };
        let payload = frames.pop().unwrap_or_default();
        backlog.push_when_room(StreamEvent::Replayed { id, seq, payload }).await;
    }
}
