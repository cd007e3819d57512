//! Streamed answers: server-sent events, one per token.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::answer::unix_now;
use super::app::App;
use super::generate::{Api, Generation};
use super::handoff::Choice;
use super::usage::Usage;
use crate::sched::Output;

type Sink = mpsc::Sender<Result<Bytes, io::Error>>;

/// Starts the stream and answers with its head at once, as vLLM does: the first body byte comes with the first token.
/// `break_after` cuts the connection after that many tokens.
pub(super) fn streamed(
    app: Arc<App>,
    generation: Generation,
    choices: Vec<Choice>,
    break_after: Option<u32>,
) -> Response {
    let (sink, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let client = sink.clone();
        let writer = Writer { app, generation, sink, usage: Usage::default(), created: unix_now() };
        tokio::select! {
            // Dropping the choices gives the request up.
            () = client.closed() => {}
            _ = writer.run(choices, break_after) => {}
        }
    });
    let body = Body::from_stream(stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    }));
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

struct Writer {
    app: Arc<App>,
    generation: Generation,
    sink: Sink,
    usage: Usage,
    created: u64,
}

/// The client is gone.
struct Gone;

impl Writer {
    async fn run(mut self, choices: Vec<Choice>, break_after: Option<u32>) -> Result<(), Gone> {
        let delay = self.app.faults().first_token_delay();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut texts: Vec<ChoiceText> = choices.iter().map(|_| ChoiceText::default()).collect();
        let mut outputs =
            stream::select_all(choices.into_iter().enumerate().map(|(index, choice)| choice.indexed(index)));
        let mut finished = 0;
        let mut sent = 0;
        while let Some((index, output)) = outputs.next().await {
            if break_after == Some(sent) {
                return self.broken().await;
            }
            let Ok(output) = output else { return self.broken().await };
            sent += 1;
            self.usage.count(&output);
            finished += usize::from(output.finish.is_some());
            self.token(index, &output, &mut texts[index]).await?;
        }
        if finished < texts.len() {
            return self.broken().await;
        }
        if self.generation.include_usage {
            let usage = self.usage_json();
            self.send(&self.chunk(json!([]), Some(usage))).await?;
        }
        self.send_line("data: [DONE]\n\n".to_owned()).await
    }

    /// Sends what one token adds.
    async fn token(&self, index: usize, output: &Output, text: &mut ChoiceText) -> Result<(), Gone> {
        let piece = text.push(&self.app, output.token);
        if self.generation.api == Api::Chat && output.index == 0 {
            let delta = json!({"role": "assistant", "content": ""});
            self.send_choice(index, "delta", delta, None).await?;
        }
        match self.generation.api {
            Api::Chat => self.send_choice(index, "delta", json!({"content": piece}), Some(output)).await,
            Api::Completion => self.send_choice(index, "text", json!(piece), Some(output)).await,
        }
    }

    async fn send_choice(&self, index: usize, key: &str, value: Value, output: Option<&Output>) -> Result<(), Gone> {
        let ids = output.filter(|_| self.generation.return_token_ids).map(|output| [output.token]);
        let mut choice = json!({"index": index});
        choice[key] = value;
        choice["logprobs"] = Value::Null;
        choice["finish_reason"] = json!(output.and_then(|output| output.finish).map(|finish| finish.as_str()));
        choice["stop_reason"] = Value::Null;
        choice["token_ids"] = json!(ids);
        let first = output.is_none_or(|output| output.index == 0);
        if self.generation.api == Api::Completion {
            let prompt = self.generation.prompts.get(index / self.generation.n as usize);
            choice["prompt_token_ids"] = json!(prompt.filter(|_| first && self.generation.return_token_ids));
        }
        let usage = self.generation.continuous_usage.then(|| self.usage_json());
        let mut chunk = self.chunk(json!([choice]), usage);
        if self.generation.api == Api::Chat && output.is_none() && self.generation.return_token_ids {
            chunk["prompt_token_ids"] = json!(self.generation.prompts.first());
        }
        self.send(&chunk).await
    }

    fn chunk(&self, choices: Value, usage: Option<Value>) -> Value {
        let object = match self.generation.api {
            Api::Chat => "chat.completion.chunk",
            Api::Completion => "text_completion",
        };
        let mut chunk = json!({
            "id": self.generation.id,
            "object": object,
            "created": self.created,
            "model": self.generation.model_name,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        chunk
    }

    fn usage_json(&self) -> Value {
        self.usage.to_json(&self.generation, self.app.config.block_size as usize)
    }

    async fn send(&self, chunk: &Value) -> Result<(), Gone> {
        self.send_line(format!("data: {chunk}\n\n")).await
    }

    async fn send_line(&self, line: String) -> Result<(), Gone> {
        self.sink.send(Ok(Bytes::from(line))).await.map_err(|_| Gone)
    }

    /// Ends the connection in the middle of the body.
    async fn broken(&self) -> Result<(), Gone> {
        let error = io::Error::new(io::ErrorKind::ConnectionAborted, "stream broken on purpose or engine gone");
        self.sink.send(Err(error)).await.map_err(|_| Gone)
    }
}

/// Text of one choice so far.
#[derive(Default)]
struct ChoiceText {
    tokens: Vec<u32>,
}

impl ChoiceText {
    /// Tokens decoded again with each new one, so that a leading space survives decoders that strip it.
    const WINDOW: usize = 8;

    fn push(&mut self, app: &App, token: u32) -> String {
        self.tokens.push(token);
        let from = self.tokens.len().saturating_sub(Self::WINDOW);
        let before = app.model.decode(&self.tokens[from..self.tokens.len() - 1]).unwrap_or_default();
        let after = app.model.decode(&self.tokens[from..]).unwrap_or_default();
        after.strip_prefix(before.as_str()).unwrap_or(&after).to_owned()
    }
}
