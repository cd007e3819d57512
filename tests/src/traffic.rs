//! Steady traffic in the background while a test pulls something out from under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::Request;
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};

use crate::client::{Body, Client, Failure, Reply};

/// Clients that send one request after another.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: JoinSet<Vec<Result<Reply, Failure>>>,
}

impl Traffic {
    /// Starts `clients` clients; the body of each request is made by `document` from a number that counts up.
    pub fn start(url: &str, clients: usize, document: impl Fn(u64) -> Value + Clone + Send + 'static) -> Self {
        let (stop, answered, serial) = (Arc::default(), Arc::default(), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        let client = Client::new();
        for _ in 0..clients {
            let (client, url, document) = (client.clone(), url.to_owned(), document.clone());
            let (stop, answered, serial) = (Arc::clone(&stop), Arc::clone(&answered), Arc::clone(&serial));
            tasks.spawn(async move {
                let mut results = Vec::new();
                while !AtomicBool::load(&stop, Ordering::Relaxed) {
                    let document = document(AtomicU64::fetch_add(&serial, 1, Ordering::Relaxed));
                    results.push(client.post(&url, &document).await);
                    AtomicU64::fetch_add(&answered, 1, Ordering::Relaxed);
                }
                results
            });
        }
        Self { stop, answered, clients: tasks }
    }

    /// Requests that have ended so far, one way or the other.
    pub fn ended(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Lets every request end, and returns what came of all of them.
    pub async fn stop(mut self) -> Vec<Result<Reply, Failure>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut results = Vec::new();
        while let Some(client) = self.clients.join_next().await {
            results.extend(client.expect("a client does not panic"));
        }
        results
    }
}

/// Requests at a steady rate, however long each of them takes.
#[derive(Debug)]
pub struct Paced {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<Vec<Result<Reply, Failure>>>,
}

impl Paced {
    /// Sends `per_second` requests a second, made by `request` from a number that counts up. `clients` clients take turns, each
    /// with connections of its own.
    pub fn start(per_second: u32, clients: usize, request: impl Fn(u64) -> Request<Body> + Send + 'static) -> Self {
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let clients: Vec<Client> = (0..clients).map(|_| Client::new()).collect();
        let sender = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            let (mut running, mut results) = (JoinSet::new(), Vec::new());
            for (serial, client) in (0..).zip(clients.iter().cycle()) {
                ticks.tick().await;
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (client, request) = (client.clone(), request(serial));
                running.spawn(async move { client.send(request).await });
                while let Some(ended) = running.try_join_next() {
                    results.push(ended.expect("a client does not panic"));
                }
            }
            results.extend(running.join_all().await);
            results
        });
        Self { stop, sender }
    }

    /// Lets every request end, and returns what came of all of them.
    pub async fn stop(self) -> Vec<Result<Reply, Failure>> {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.await.expect("the sender does not panic")
    }
}

/// Fails the test unless every request was answered with 200.
pub fn expect_all_ok(results: &[Result<Reply, Failure>]) {
    let failed: Vec<String> = results.iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "{} of {} requests failed, the first: {}", failed.len(), results.len(), failed[0]);
}

fn failure(result: &Result<Reply, Failure>) -> Option<String> {
    match result {
        Ok(reply) if reply.status == 200 => None,
        Ok(reply) => Some(format!("{}: {}", reply.status, reply.text())),
        Err(failure) => Some(failure.to_string()),
    }
}
