//! An engine that only writes down what reaches it and answers 200. Unlike the simulated engine it shows the request
//! exactly as Envoy sent it: raw header bytes, the whole body, trailers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Path and query.
    pub path: String,
    /// Headers, with their raw bytes.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Trailers, when there were any.
    pub trailers: Option<HeaderMap>,
}

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: AbortHandle,
}

impl Recorder {
    /// Starts one on a port chosen by the kernel.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(listener, seen.clone())).abort_handle();
        Self { address, seen, task }
    }

    /// Requests so far, without the bridge's probes (GET).
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// The only request so far.
    pub fn only(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>) {
    // Dropped with this task, which ends every connection.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, seen.clone()));
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Vec<Seen>>>) {
    let service = service_fn(move |request| record(request, seen.clone()));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        println!("recorder: {error}");
    }
}

async fn record(request: Request<Incoming>, seen: Arc<Mutex<Vec<Seen>>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    if head.method == hyper::Method::GET && !head.headers.contains_key("x-recorded") {
        return Ok(Response::new(Full::new(Bytes::from_static(b"ok"))));
    }
    let collected = body.collect().await.expect("whole body");
    let trailers = collected.trailers().cloned();
    let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let body = collected.to_bytes();
    seen.lock().expect("not poisoned").push(Seen { path, headers: head.headers, body, trailers });
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"recorded\":true}"))))
}
