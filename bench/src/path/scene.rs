//! What is measured: trivial workers, and two Envoys before them.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::bridge::Worker;
use e2e::client::{self, Client};
use e2e::engine::{self, Engine};
use e2e::envoy::{self, Envoy};
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::stack::{Options, Stack};
use e2e::{paths, ports, wait};
use serde_json::json;
use tokio::process::Command;

use super::{PATH, Way};
use crate::bodies::Bodies;

const WORKERS: usize = 4;
const START_LIMIT: Duration = Duration::from_secs(30);
/// Every conversation of every case fits.
const BLOCKS: u32 = 200_000;

/// Workers answer at once and hold nothing. That a worker holds a prefix is told by a simulated engine beside it, which
/// got that prompt once, publishes real events, and is idle while anything is measured.
#[derive(Debug)]
pub struct Scene {
    stack: Stack,
    plain: Envoy,
    _plain_scratch: Scratch,
    engines: Vec<Engine>,
    workers: Vec<Worker>,
    _fakeworkers: Process,
}

impl Scene {
    /// Starts everything.
    ///
    /// # Errors
    /// When the endpoints that the bridge wrote cannot be read.
    pub async fn start() -> Result<Self> {
        let plain_scratch = Scratch::new();
        let ports: Vec<u16> = (0..WORKERS).map(|_| ports::free()).collect();
        let mut command = Command::new(paths::program("fakeworker"));
        command.args(ports.iter().map(ToString::to_string));
        let fakeworkers = Process::start("fakeworkers", plain_scratch.dir(), &mut command);
        for port in &ports {
            let (client, url) = (Client::new(), format!("http://127.0.0.1:{port}/health"));
            wait::until("a trivial worker answers", START_LIMIT, async || client.get(&url).await.ok()).await;
        }

        let config = mock_engine::EngineConfig { num_blocks: BLOCKS, ..engine::config() };
        let engines = Engine::start_many(WORKERS, &config).await;
        let workers: Vec<Worker> = ports
            .iter()
            .zip(&engines)
            .map(|(port, engine)| Worker { address: format!("127.0.0.1:{port}"), ..engine.worker() })
            .collect();
        // Nobody announces what trivial workers answer, which for real ones would prove wrong tokens; and what was routed counts as
        // briefly as on a worker whose events are in order.
        let pool = json!({"events": {"parity": "report"}, "predict": {"ms": 1_000}});
        let stack = Stack::start(&workers, Options { pool, ..Options::default() }).await;
        let endpoints = std::fs::read_to_string(stack.scratch.path("eds.json")).context("endpoints")?;
        plain_scratch.replace("eds.json", &endpoints);
        let plain = Envoy::start(&plain_scratch, &envoy::Options::without_filter()).await;
        Ok(Self { stack, plain, _plain_scratch: plain_scratch, engines, workers, _fakeworkers: fakeworkers })
    }

    /// Model that requests name.
    pub fn model(&self) -> &str {
        &self.stack.options.model
    }

    /// Gives each conversation to one engine, and waits until the filter routes it exactly.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn warm(&self, bodies: &Bodies) -> Result<()> {
        let client = Client::new();
        for (number, body) in bodies.bodies.iter().enumerate() {
            let engine = &self.engines[number % WORKERS];
            client.send(client::post(&engine.url(PATH), body.clone())).await?.expect_ok();
        }
        let exact = self.stack.envoy.stat("kv_router.rung.exact").await;
        let url = self.stack.envoy.url(PATH);
        let mut sent = 0;
        wait::until("the filter routes by cache", START_LIMIT, async || {
            for body in &bodies.bodies {
                client.send(client::post(&url, body.clone())).await.ok()?;
                sent += 1;
            }
            (self.stack.envoy.stat("kv_router.rung.exact").await > exact).then_some(())
        })
        .await;
        Ok(())
    }

    /// `ip:port` of a way.
    pub fn address(&self, way: Way) -> String {
        let url = match way {
            Way::Direct => return self.workers[0].address.clone(),
            Way::Plain => &self.plain.url,
            Way::Filter => &self.stack.envoy.url,
        };
        url.trim_start_matches("http://").to_owned()
    }

    /// Process id of the Envoy of a way.
    pub fn envoy_process(&self, way: Way) -> Option<u32> {
        match way {
            Way::Direct => None,
            Way::Plain => Some(self.plain.id()),
            Way::Filter => Some(self.stack.envoy.id()),
        }
    }
}
