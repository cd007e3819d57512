//! Envoy and bridge together, over any workers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bridge::{self, Bridge, Worker};
use crate::client::{Client, Reply};
use crate::decision::{Decision, LogLine};
use crate::envoy::{self, Envoy};
use crate::scratch::Scratch;
use crate::{paths, ports, wait};

const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const LOG_LIMIT: Duration = Duration::from_secs(5);

/// How to start a stack.
#[derive(Clone, Debug)]
pub struct Options {
    /// Envoy's configuration.
    pub envoy: envoy::Options,
    /// Model that the pool serves.
    pub model: String,
    /// Tokenizer family in `.deps/tokenizers`; `None`: token-id prompts only.
    pub family: Option<&'static str>,
    /// Block size.
    pub block_size: u32,
    /// Members added to the pool in the bridge's configuration.
    pub pool: Value,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            envoy: envoy::Options::default(),
            model: "mock".into(),
            family: Some("qwen3"),
            block_size: 16,
            pool: json!({}),
        }
    }
}

/// A running stack. Processes end before their folder goes.
#[derive(Debug)]
pub struct Stack {
    /// Client of the ingress.
    pub client: Client,
    /// Envoy.
    pub envoy: Envoy,
    /// The bridge.
    pub bridge: Bridge,
    /// Folder of both.
    pub scratch: Scratch,
    /// What they were started with.
    pub options: Options,
    log_lines: usize,
}

impl Stack {
    /// Starts Envoy and bridge over `workers`, and waits until every worker is healthy and every Envoy has all state.
    pub async fn start(workers: &[Worker], mut options: Options) -> Self {
        let scratch = Scratch::new();
        for file in ["eds.json", "prefill-eds.json"] {
            scratch.replace(file, &json!({"resources": []}).to_string());
        }
        bridge::write_workers(&scratch, workers);
        let admin_port = ports::free();
        options.envoy.bridge_port = Some(admin_port);
        let config = bridge::Config {
            model: options.model.clone(),
            model_dir: options.family.map(paths::model_dir),
            block_size: Some(options.block_size),
            pool: options.pool.clone(),
            admin_port: Some(admin_port),
        };
        config.write(&scratch);
        let (envoy, bridge) = tokio::join!(Envoy::start(&scratch, &options.envoy), Bridge::launch(&scratch));
        let mut stack = Self { client: Client::new(), envoy, bridge, scratch, options, log_lines: 0 };
        stack.settle(workers.len()).await;
        stack
    }

    /// Waits until the bridge is ready and `workers` workers are healthy and known to Envoy.
    pub async fn settle(&mut self, workers: usize) {
        self.bridge.ready().await;
        wait::until(&format!("{workers} healthy workers"), SETTLE_LIMIT, || async {
            self.bridge.has_settled(workers).await.then_some(())
        })
        .await;
        wait::until(&format!("{workers} endpoints in Envoy"), SETTLE_LIMIT, || async {
            let members = self.envoy.stat("cluster.workers.membership_total").await
                + self.envoy.stat("cluster.prefill.membership_total").await;
            (members == workers as u64).then_some(())
        })
        .await;
    }

    /// Sends a chat completion.
    pub async fn chat(&self, document: &Value) -> Reply {
        self.client.post(&self.envoy.url("/v1/chat/completions"), document).await.expect("answer")
    }

    /// Sends a completion.
    pub async fn complete(&self, document: &Value) -> Reply {
        self.client.post(&self.envoy.url("/v1/completions"), document).await.expect("answer")
    }

    /// The next access-log line that was not asked for yet. Requests sent one after another have theirs in order.
    pub async fn next_line(&mut self) -> LogLine {
        let at = self.log_lines;
        let (line, _) = wait::until("an access-log line", LOG_LIMIT, || async {
            self.envoy.access_log().get(at).map(|line| LogLine::parse(line))
        })
        .await;
        self.log_lines += 1;
        line
    }

    /// The next decision; fails the test when the request was not routed.
    pub async fn next_decision(&mut self) -> Decision {
        let line = self.next_line().await;
        line.decision.unwrap_or_else(|| panic!("not routed: status {} by {}", line.status, line.upstream))
    }

    /// Passes over the lines of `count` requests that a test sent by other means.
    pub async fn skip_lines(&mut self, count: usize) {
        self.next_lines(count).await;
    }

    /// Kills Envoy and starts it again on the same configuration, with a new port and nothing in its memory.
    pub async fn restart_envoy(&mut self) {
        self.envoy.kill().await;
        self.envoy = Envoy::start(&self.scratch, &self.options.envoy).await;
    }

    /// All access-log lines that were not asked for yet, once there are `count` of them.
    pub async fn next_lines(&mut self, count: usize) -> Vec<LogLine> {
        let mut lines = Vec::with_capacity(count);
        while lines.len() < count {
            lines.push(self.next_line().await);
        }
        lines
    }
}
