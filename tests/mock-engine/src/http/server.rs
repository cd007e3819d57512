//! Routes, the accept loop, and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::app::App;
use super::faults::CloseConnection;
use super::{admin, chat, completions, faults, tokenize};
use crate::transfer::PdProtocol;

/// Largest body accepted: long prompts as token ids are big.
const BODY_LIMIT: usize = 64 << 20;

/// All routes.
pub fn router(app: Arc<App>) -> Router {
    let generation = Router::new()
        .route("/v1/chat/completions", post(chat::handle))
        .route("/v1/completions", post(completions::handle))
        .layer(middleware::from_fn_with_state(app.clone(), faults::fail_requests));
    let controls = Router::new()
        .route("/mock/faults", get(faults::get).post(faults::set))
        .route("/mock/restart_events", post(faults::restart_events))
        .route("/mock/crash", post(faults::crash))
        .route("/mock/state", get(faults::state));
    let mut plain = Router::new();
    if app.config.transfer.protocol == PdProtocol::Sglang {
        plain = plain.route("/server_info", get(admin::server_info)).route("/get_server_info", get(admin::server_info));
    }
    plain
        .route("/v1/models", get(admin::models))
        .route("/health", get(admin::health))
        .route("/ping", get(admin::health).post(admin::health))
        .route("/version", get(admin::version))
        .route("/metrics", get(admin::metrics))
        .route("/reset_prefix_cache", post(admin::reset_prefix_cache))
        .route("/kv_event_sources", get(admin::kv_event_sources))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .merge(generation)
        .layer(middleware::from_fn_with_state(app.clone(), count_answers))
        .merge(controls)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(app)
}

async fn count_answers(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let handler = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().to_string();
    let response = next.run(request).await;
    let status = format!("{}xx", response.status().as_u16() / 100);
    let key = (handler.unwrap_or_else(|| "none".to_owned()), method, status);
    *app.answered.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(0) += 1;
    response
}

/// A bound listener that does not serve yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Binds.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn new(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the server is dropped.
    pub fn serve(self, router: Router) -> Server {
        Server { address: self.address, task: tokio::spawn(accept(self.listener, router)) }
    }
}

/// A listening HTTP server. Dropping it breaks every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, router: Router) {
    // Connections end with this task, so that stopping the server breaks them as a dead process would.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, router.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no delay");
    }
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if response.extensions().get::<CloseConnection>().is_some() {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "closed on purpose"));
            }
            Ok(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection ended");
    }
}
