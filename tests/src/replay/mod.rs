//! Replays a trace through Envoy, at the trace's own arrival times, and measures what clients see.

mod compare;
mod trace;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{self, Body, Client};
pub use compare::{Balancing, replay_beside, replay_split, replay_under, splits};
pub use trace::{TraceRequest, first, working_set_tokens};

/// How to replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Model every request names.
    pub model: String,
    /// How many times faster than recorded requests arrive.
    pub compression: f64,
    /// Longest answer, in tokens: the trace's answers are cut to it, so that streaming does not drown the machine.
    pub max_output: u32,
}

/// What a replay measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Time to first token of each request, ascending.
    first_tokens: Vec<Duration>,
    /// Prompt tokens of all requests.
    pub prompt_tokens: u64,
    /// Of those, tokens that engines found in their caches.
    pub cached_tokens: u64,
    /// Prompt tokens and cached ones of each request.
    tokens: Vec<(u64, u64)>,
}

struct Served {
    first_token: Duration,
    prompt_tokens: u64,
    cached_tokens: u64,
}

impl Replay {
    /// Sends every request at its time and waits for all answers.
    ///
    /// # Errors
    /// When any request fails.
    pub async fn run(&self, url: &str, requests: &[TraceRequest]) -> Result<Outcome> {
        let client = Client::new();
        let url = format!("{url}/v1/completions");
        // Prompts are made before the clock starts: making them takes time that arrivals should not wait for.
        let made: Vec<Request<Body>> = requests.iter().map(|request| client::json(&url, &self.body(request))).collect();
        let start = Instant::now();
        let mut running = JoinSet::new();
        for (request, made) in requests.iter().zip(made) {
            tokio::time::sleep_until((start + request.arrival(self.compression)).into()).await;
            let client = client.clone();
            running.spawn(async move { serve(&client, made).await });
        }
        let mut outcome = Outcome::default();
        while let Some(served) = running.join_next().await {
            outcome.add(served??);
        }
        outcome.first_tokens.sort_unstable();
        Ok(outcome)
    }

    fn body(&self, request: &TraceRequest) -> Value {
        json!({
            "model": self.model,
            "prompt": request.prompt(),
            "max_tokens": request.output_length.clamp(1, self.max_output),
            "ignore_eos": true,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    }
}

async fn serve(client: &Client, request: Request<Body>) -> Result<Served> {
    let reply = client.send(request).await?;
    ensure!(reply.status == 200, "{}: {}", reply.status, reply.text());
    let text = reply.text();
    let usage =
        text.lines().rev().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("\"usage\""));
    let usage: Value = serde_json::from_str(usage.context("no usage in the stream")?)?;
    let usage = &usage["usage"];
    Ok(Served {
        first_token: reply.first_byte,
        prompt_tokens: usage["prompt_tokens"].as_u64().context("prompt_tokens")?,
        cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
    })
}

impl Outcome {
    fn add(&mut self, served: Served) {
        self.first_tokens.push(served.first_token);
        self.prompt_tokens += served.prompt_tokens;
        self.cached_tokens += served.cached_tokens;
        self.tokens.push((served.prompt_tokens, served.cached_tokens));
    }

    /// Share of prompt tokens found in caches.
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64
    }

    /// Standard error of the hit rate, were what each request finds independent of the others.
    pub fn hit_rate_error(&self) -> f64 {
        let rate = self.hit_rate();
        let squares: f64 =
            self.tokens.iter().map(|(prompt, cached)| (*cached as f64 - rate * *prompt as f64).powi(2)).sum();
        squares.sqrt() / self.prompt_tokens.max(1) as f64
    }

    /// Mean time to first token.
    pub fn mean(&self) -> Duration {
        self.first_tokens.iter().sum::<Duration>() / u32::try_from(self.first_tokens.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Time to first token below which `share` (0 to 1) of the requests lie.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.first_tokens.len().saturating_sub(1);
        self.first_tokens.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}
