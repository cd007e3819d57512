//! A worker that answers probes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub(crate) struct FakeWorker {
    address: SocketAddr,
    probes: Arc<AtomicU64>,
    running: Arc<AtomicU64>,
    started: Arc<AtomicU64>,
    task: AbortHandle,
}

impl FakeWorker {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    /// Starts where a former one was.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        Self::serve(address, Router::new()).await
    }

    /// One that answers more than probes.
    pub(crate) async fn start_with(more: Router) -> Self {
        Self::serve("127.0.0.1:0".parse().unwrap(), more).await
    }

    async fn serve(address: SocketAddr, more: Router) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (probes, running) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let started = Arc::new(AtomicU64::new(5));
        let (count, load, process) = (Arc::clone(&probes), Arc::clone(&running), Arc::clone(&started));
        let router = more
            .route("/health", get(move || async move { format!("probe {}", count.fetch_add(1, Ordering::Relaxed)) }))
            .route(
                "/metrics",
                get(move || async move {
                    let running = load.load(Ordering::Relaxed);
                    let started = process.load(Ordering::Relaxed);
                    format!(
                        "vllm:num_requests_running{{engine=\"0\"}} {running}\nprocess_start_time_seconds {started}\n"
                    )
                }),
            );
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, probes, running, started, task: task.abort_handle() }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.address
    }

    /// Health probes so far.
    pub(crate) fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }

    /// Is another process from now on.
    pub(crate) fn restart(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number of requests it says it runs.
    pub(crate) fn run(&self, requests: u64) {
        self.running.store(requests, Ordering::Relaxed);
    }
}

impl Drop for FakeWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
