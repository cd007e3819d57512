//! What engines say about disaggregated serving themselves: role and bootstrap port (SGLang), engine ids (Mooncake).

use std::collections::BTreeMap;

use kv_routing::wire::Role;
use serde::Deserialize;

use super::http::{ProbeError, WorkerClient};

/// What an engine said; empty for protocols that do not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineHandoff {
    /// The phase it serves.
    pub role: Option<Role>,
    /// Port of its bootstrap server.
    pub bootstrap_port: Option<u16>,
    /// Its data-parallel ranks.
    pub ranks: Option<u32>,
    /// Engine ids by rank.
    pub engine_ids: BTreeMap<u32, String>,
}

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffProbe {
    /// SGLang's `/server_info`, at the worker's own address.
    Sglang,
    /// `/query` of a Mooncake bootstrap server at `host:port`. Only prefill workers have one.
    Mooncake(String),
    /// The same of an engine that may have none, as it hands over by the NIXL connector.
    PerhapsMooncake(String),
}

/// Healthy probes after which an engine that has no bootstrap server is asked for one again.
const ASKED_EVERY: u32 = 30;

/// What is asked of one engine, over its probes.
#[derive(Debug)]
pub(super) struct Question {
    probe: HandoffProbe,
    /// Healthy probes since it said that it has no bootstrap server.
    without: Option<u32>,
}

impl Question {
    pub(super) fn new(probe: HandoffProbe) -> Self {
        Self { probe, without: None }
    }

    /// It was not healthy: it may be another engine when it is again.
    pub(super) fn doubt(&mut self) {
        self.without = None;
    }

    /// Asks a healthy engine; `None`: it was asked a while ago, and has nothing to say.
    pub(super) async fn ask(&mut self, worker: &WorkerClient) -> Option<Result<EngineHandoff, String>> {
        if let Some(probes) = self.without.as_mut().filter(|probes| **probes < ASKED_EVERY) {
            *probes += 1;
            return None;
        }
        let answer = ask(worker, &self.probe).await;
        match (&self.probe, &answer) {
            (HandoffProbe::PerhapsMooncake(_), Err(_)) => {
                self.without = Some(0);
                Some(Ok(EngineHandoff::default()))
            }
            _ => Some(answer),
        }
    }
}

/// `disaggregation_mode` and its neighbours in SGLang's server information.
#[derive(Deserialize)]
struct ServerInfo {
    disaggregation_mode: Option<String>,
    disaggregation_bootstrap_port: Option<u16>,
    dp_size: Option<u32>,
}

#[derive(Deserialize)]
struct MooncakeRank {
    engine_id: String,
}

impl EngineHandoff {
    /// Reads SGLang's server information.
    ///
    /// # Errors
    /// What does not fit.
    pub fn of_sglang(body: &[u8]) -> Result<Self, String> {
        let info: ServerInfo = serde_json::from_slice(body).map_err(|error| format!("/server_info: {error}"))?;
        let role = match info.disaggregation_mode.as_deref() {
            Some("prefill") => Some(Role::Prefill),
            Some("decode") => Some(Role::Decode),
            _ => None,
        };
        let bootstrap_port = info.disaggregation_bootstrap_port;
        Ok(Self { role, bootstrap_port, ranks: info.dp_size, engine_ids: BTreeMap::new() })
    }

    /// Reads the ranks that a Mooncake bootstrap server knows.
    ///
    /// # Errors
    /// What does not fit.
    pub fn of_mooncake(body: &[u8]) -> Result<Self, String> {
        let ranks: BTreeMap<u32, MooncakeRank> =
            serde_json::from_slice(body).map_err(|error| format!("bootstrap server's /query: {error}"))?;
        let count = u32::try_from(ranks.len()).ok();
        let engine_ids = ranks.into_iter().map(|(rank, found)| (rank, found.engine_id)).collect();
        Ok(Self { ranks: count, engine_ids, ..Self::default() })
    }
}

/// Asks the engine.
async fn ask(worker: &WorkerClient, probe: &HandoffProbe) -> Result<EngineHandoff, String> {
    let text = |error: ProbeError| error.to_string();
    match probe {
        HandoffProbe::Sglang => EngineHandoff::of_sglang(&worker.get("/server_info").await.map_err(text)?),
        HandoffProbe::Mooncake(address) | HandoffProbe::PerhapsMooncake(address) => {
            let bootstrap = WorkerClient::new(address, worker.timeout());
            let body = bootstrap.get("/query").await.map_err(|error| format!("bootstrap server {address}: {error}"))?;
            EngineHandoff::of_mooncake(&body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sglang_says() {
        let body =
            br#"{"disaggregation_mode":"prefill","disaggregation_bootstrap_port":9001,"dp_size":4,"version":"x"}"#;
        let expected = EngineHandoff {
            role: Some(Role::Prefill),
            bootstrap_port: Some(9001),
            ranks: Some(4),
            engine_ids: BTreeMap::new(),
        };
        assert_eq!(EngineHandoff::of_sglang(body), Ok(expected));
        let off = EngineHandoff::of_sglang(br#"{"disaggregation_mode":"null"}"#).unwrap();
        assert_eq!(off, EngineHandoff::default());
        assert!(EngineHandoff::of_sglang(b"[]").unwrap_err().contains("/server_info"));
    }

    /// It has no bootstrap server for most of the time, and that is no error.
    #[tokio::test]
    async fn an_engine_that_may_have_a_bootstrap_server_is_asked_now_and_then() {
        use std::time::Duration;

        use axum::routing::get;

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let worker = WorkerClient::new(&address.to_string(), Duration::from_secs(5));
        let mut question = Question::new(HandoffProbe::PerhapsMooncake(address.to_string()));
        assert_eq!(question.ask(&worker).await, Some(Ok(EngineHandoff::default())));
        for _ in 0..ASKED_EVERY {
            assert_eq!(question.ask(&worker).await, None);
        }
        let router = axum::Router::new().route("/query", get(async || r#"{"0":{"engine_id":"a"}}"#));
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        for _ in 0..2 {
            let answer = question.ask(&worker).await.unwrap().unwrap();
            assert_eq!(answer.engine_ids.get(&0).map(String::as_str), Some("a"));
        }
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        let mut other = Question::new(HandoffProbe::PerhapsMooncake("127.0.0.1:1".into()));
        assert_eq!(other.ask(&worker).await, Some(Ok(EngineHandoff::default())));
        assert_eq!(other.ask(&worker).await, None);
        other.doubt();
        assert_eq!(
            other.ask(&worker).await,
            Some(Ok(EngineHandoff::default())),
            "asked again when it is healthy again"
        );
    }

    #[test]
    fn what_a_mooncake_bootstrap_server_says() {
        let found = EngineHandoff::of_mooncake(br#"{"0":{"engine_id":"a","worker_addr":{}},"1":{"engine_id":"b"}}"#);
        let found = found.unwrap();
        assert_eq!((found.ranks, found.engine_ids.get(&1).map(String::as_str)), (Some(2), Some("b")));
        assert!(EngineHandoff::of_mooncake(br#"{"0":{}}"#).unwrap_err().contains("engine_id"));
    }
}
