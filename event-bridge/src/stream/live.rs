//! The event socket: connect, subscribe, drain, and again.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::backlog::Backlog;
use super::endpoint::{Endpoint, EndpointError};
use super::transport::{Accept, Listener, Transport, connect};
use super::zmtp::{Connection, ConnectionError, Heartbeat, Role};
use super::{StreamEvent, StreamSpec};
use crate::engine;

/// Why there is no event socket.
#[derive(Debug, Error)]
enum LiveError {
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("no connection within {0:?}")]
    Timeout(Duration),
}

/// Keeps the stream connected for ever.
pub(super) async fn run(spec: Arc<StreamSpec>, backlog: Arc<Backlog>) {
    let shortest = spec.limits.reconnect_max / 20;
    let mut pause = shortest;
    loop {
        let before = Instant::now();
        let result = if spec.bind {
            bound(&spec, &backlog).await.map(|never| match never {})
        } else {
            connected(&spec, &backlog).await
        };
        if let Err(error) = result {
            // The first failure of a row is worth a line; an engine that is down for hours is not.
            if pause == shortest {
                warn!(endpoint = spec.endpoint, %error, "no event stream; trying again");
            } else {
                debug!(endpoint = spec.endpoint, %error, "no event stream; trying again");
            }
            backlog.count(|stats| stats.connect_failures += 1);
        } else if before.elapsed() > spec.limits.reconnect_max {
            pause = shortest;
        }
        sleep(pause).await;
        pause = (pause * 2).min(spec.limits.reconnect_max);
    }
}

/// One connection from its beginning to its end. An error means that it never began.
async fn connected(spec: &StreamSpec, backlog: &Backlog) -> Result<(), LiveError> {
    let endpoint = Endpoint::to_connect(&spec.endpoint)?;
    let limit = spec.limits.connect_timeout;
    let begin = async { subscribe(connect(&endpoint).await?, spec).await };
    let connection = timeout(limit, begin).await.map_err(|_| LiveError::Timeout(limit))??;
    drain(connection, spec, backlog, None).await;
    Ok(())
}

/// Peers that shake hands at a time; more wait in the listener's queue.
const MOST_ARRIVING: usize = 16;
/// Pause after a peer that could not be accepted; without it, one error that stays would take a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Waits for engines that connect to us. One that has shaken hands as a publisher takes the place of the former, which is the
/// same engine started anew; whoever else connects (a scan, a load balancer's probe) changes nothing.
async fn bound(spec: &Arc<StreamSpec>, backlog: &Backlog) -> Result<Infallible, LiveError> {
    let listener = Listener::bind(&spec.endpoint.parse()?).await?;
    info!(endpoint = spec.endpoint, "waiting for an engine to connect");
    Ok(serve_peers(&listener, spec, backlog).await)
}

/// Serves one of the peers that come in, for ever.
async fn serve_peers(listener: &impl Accept, spec: &Arc<StreamSpec>, backlog: &Backlog) -> Infallible {
    let (mut may_accept, mut retry) = (true, Box::pin(sleep(Duration::ZERO)));
    let mut arriving = JoinSet::new();
    let mut served: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
    loop {
        tokio::select! {
            accepted = listener.accept(), if may_accept && arriving.len() < MOST_ARRIVING => {
                match accepted {
                    Ok((transport, peer)) => _ = arriving.spawn(arrive(transport, peer, Arc::clone(spec))),
                    // It is about a peer that is gone already, or about too many open files: whoever is served stays.
                    Err(error) => {
                        warn!(endpoint = spec.endpoint, %error, "a peer could not be accepted");
                        retry = Box::pin(sleep(ACCEPT_PAUSE));
                        may_accept = false;
                    }
                }
            }
            () = &mut retry, if !may_accept => may_accept = true,
            Some(arrived) = arriving.join_next() => {
                let Ok(Some((connection, peer))) = arrived else { continue };
                if served.take().is_some() {
                    disconnected(spec, backlog, "another engine connected");
                }
                served = Some(Box::pin(serve(connection, peer, spec, backlog)));
            }
            () = ended(&mut served) => served = None,
        }
    }
}

/// The end of the connection that is served; never without one.
async fn ended(served: &mut Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    match served {
        Some(served) => served.await,
        None => std::future::pending().await,
    }
}

/// Shakes hands with a peer that connected; `None` when it is no publisher.
async fn arrive(
    transport: Box<dyn Transport>,
    peer: Option<SocketAddr>,
    spec: Arc<StreamSpec>,
) -> Option<(Connection<Box<dyn Transport>>, Option<SocketAddr>)> {
    let from = peer.map(|peer| peer.to_string());
    match timeout(spec.limits.connect_timeout, subscribe(transport, &spec)).await {
        Ok(Ok(connection)) => return Some((connection, peer)),
        Ok(Err(error)) => warn!(endpoint = spec.endpoint, from, %error, "a peer connected and is no publisher"),
        Err(_) => warn!(endpoint = spec.endpoint, from, "a peer connected and said nothing"),
    }
    None
}

async fn serve(
    connection: Connection<Box<dyn Transport>>,
    peer: Option<SocketAddr>,
    spec: &StreamSpec,
    backlog: &Backlog,
) {
    let former = backlog.stats().peer;
    backlog.count(|stats| stats.peer = peer);
    info!(endpoint = spec.endpoint, peer = peer.map(|peer| peer.to_string()), "an engine connected");
    let changed = peer.filter(|peer| former.is_some_and(|former| former.ip() != peer.ip()));
    drain(connection, spec, backlog, changed).await;
}

async fn subscribe(
    transport: Box<dyn Transport>,
    spec: &StreamSpec,
) -> Result<Connection<Box<dyn Transport>>, ConnectionError> {
    let mut connection = Connection::open(transport, Role::Subscriber, spec.limits.frame_bytes).await?;
    connection.subscribe(&spec.topic).await?;
    Ok(connection)
}

/// Takes everything off a connection until it ends. `changed` is its peer when that is another than before.
async fn drain(
    mut connection: Connection<Box<dyn Transport>>,
    spec: &StreamSpec,
    backlog: &Backlog,
    changed: Option<SocketAddr>,
) {
    info!(endpoint = spec.endpoint, "event stream connected");
    backlog.count(|stats| stats.connects += 1);
    backlog.push(StreamEvent::Connected);
    if let Some(peer) = changed {
        backlog.push(StreamEvent::PeerChanged { peer: peer.ip() });
    }
    let heartbeat = Heartbeat { after: spec.limits.ping_after, patience: spec.limits.ping_patience };
    let error = loop {
        match connection.receive(Some(heartbeat)).await {
            Ok(frames) => take(frames, backlog),
            Err(error) => break error,
        }
    };
    disconnected(spec, backlog, &error.to_string());
}

fn disconnected(spec: &StreamSpec, backlog: &Backlog, reason: &str) {
    warn!(endpoint = spec.endpoint, reason, "event stream lost");
    backlog.push(StreamEvent::Disconnected { reason: reason.to_owned() });
}

fn take(mut frames: Vec<Bytes>, backlog: &Backlog) {
    let received = Instant::now();
    match engine::live(&frames).map(|message| message.seq) {
        Ok(seq) => {
            let payload = frames.pop().unwrap_or_default();
            backlog.push_live(StreamEvent::Live { seq, payload, received });
        }
        Err(error) => backlog.push_live(StreamEvent::Undecodable { reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::AsyncReadExt;
    use zeromq::{PubSocket, Socket};

    use super::super::Sharing;
    use super::super::transport::Peer;
    use super::*;

    /// Every other peer cannot be accepted.
    struct Flaky(tokio::net::TcpListener, AtomicU32);

    impl Accept for Flaky {
        async fn accept(&self) -> io::Result<Peer> {
            let (stream, peer) = self.0.accept().await?;
            if self.1.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            Ok((Box::new(stream), Some(peer)))
        }
    }

    #[tokio::test]
    async fn a_peer_that_cannot_be_accepted_ends_nobodys_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let spec = Arc::new(StreamSpec { bind: true, ..StreamSpec::connect(format!("tcp://{address}")) });
        let backlog = Arc::new(Backlog::new(spec.limits, Sharing::default()));
        let flaky = Flaky(listener, AtomicU32::new(0));
        let served = tokio::spawn({
            let backlog = Arc::clone(&backlog);
            async move { serve_peers(&flaky, &spec, &backlog).await }
        });
        let (mut engine, mut second) = (PubSocket::new(), PubSocket::new());
        engine.connect(&format!("tcp://{address}")).await.unwrap();
        assert_eq!(backlog.next().await, StreamEvent::Connected);
        let mut refused = tokio::net::TcpStream::connect(address).await.unwrap();
        assert_eq!(refused.read(&mut [0; 1]).await.unwrap_or(0), 0);
        // The one that is served still is, and so is the next that comes.
        assert_eq!(backlog.stats().backlog_messages, 0);
        second.connect(&format!("tcp://{address}")).await.unwrap();
        let replaced = StreamEvent::Disconnected { reason: "another engine connected".to_owned() };
        assert_eq!((backlog.next().await, backlog.next().await), (replaced, StreamEvent::Connected));
        served.abort();
    }
}
