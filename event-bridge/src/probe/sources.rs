//! Asking an engine where it publishes its events.

use std::time::Duration;

use hyper::StatusCode;
use tokio::time::Instant;

use super::http::{ProbeError, WorkerClient};
use crate::config::EngineKind;
use crate::engine::{EventSource, sglang_sources, vllm_sources};

/// An answer is good for this long: engines that are started anew may publish elsewhere.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// When to ask, and whom.
#[derive(Debug)]
pub(super) struct SourceQuestion {
    engine: EngineKind,
    host: String,
    asked: Option<Instant>,
}

impl SourceQuestion {
    pub(super) fn new(engine: EngineKind, host: String) -> Self {
        Self { engine, host, asked: None }
    }

    /// The engine was away; it may not be the same any more.
    pub(super) fn doubt(&mut self) {
        self.asked = None;
    }

    /// Asks, if it is time to.
    pub(super) async fn ask(&mut self, client: &WorkerClient) -> Option<Result<Vec<EventSource>, String>> {
        if self.asked.is_some_and(|at| at.elapsed() < GOOD_FOR) {
            return None;
        }
        let answer = match self.engine {
            EngineKind::Sglang => self.sglang(client).await,
            EngineKind::Vllm | EngineKind::Trtllm => self.vllm(client).await,
        };
        self.asked = answer.is_ok().then(Instant::now);
        Some(answer)
    }

    async fn vllm(&self, client: &WorkerClient) -> Result<Vec<EventSource>, String> {
        match client.get("/kv_event_sources").await {
            Ok(body) => vllm_sources(&body, &self.host).map_err(|error| error.to_string()),
            Err(error @ ProbeError::Status { status: StatusCode::NOT_FOUND, .. }) => {
                Err(format!("{error}: vLLM before 0.31 does not say where it publishes; set events.source: ports"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn sglang(&self, client: &WorkerClient) -> Result<Vec<EventSource>, String> {
        let body = match client.get("/server_info").await {
            // Its old name.
            Err(ProbeError::Status { status: StatusCode::NOT_FOUND, .. }) => client.get("/get_server_info").await,
            answer => answer,
        };
        let body = body.map_err(|error| error.to_string())?;
        sglang_sources(&body, &self.host).map_err(|error| error.to_string())
    }
}
