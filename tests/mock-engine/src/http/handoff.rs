//! Hand-offs around a generation: a prefill that is held, a decode that fetches first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;

use super::app::App;
use super::error::ApiError;
use super::generate::Generation;
use crate::engine::{Submission, Ticket};
use crate::sched::{Output, RequestSpec};
use crate::transfer::{Fetch, HandOff, HeldAnswer, PdProtocol, Pull, Registration, Wanted, prompt_digest};

/// One running choice.
pub(super) struct Choice {
    ticket: Ticket,
    hold: Option<Hold>,
}

/// What a choice does with its blocks at its end.
struct Hold {
    registration: Registration,
    digest: String,
    rank: usize,
    engine_id: String,
    number: Option<u64>,
    timeout: Duration,
    /// The answer waits until the blocks were fetched (SGLang).
    wait_for_fetch: bool,
}

impl Choice {
    /// The next token.
    pub(super) async fn next(&mut self) -> Option<Output> {
        self.ticket.next().await
    }

    /// Ends the choice with its last token: makes its blocks fetchable where it holds them.
    pub(super) async fn finish(self, last: &Output) -> Result<Option<HeldAnswer>, ApiError> {
        finish(self.ticket.id(), self.hold, last).await
    }

    /// The tokens, each with the choice's `index`; the last one after the blocks were made fetchable.
    pub(super) fn indexed(self, index: usize) -> impl Stream<Item = (usize, Result<Output, ApiError>)> + Unpin {
        let id = self.ticket.id();
        let mut hold = self.hold;
        Box::pin(self.ticket.then(move |output| {
            let hold = if output.finish.is_some() { hold.take() } else { None };
            async move {
                let held = finish(id, hold, &output).await;
                (index, held.map(|_| output))
            }
        }))
    }
}

async fn finish(
    request: crate::sched::RequestId,
    hold: Option<Hold>,
    last: &Output,
) -> Result<Option<HeldAnswer>, ApiError> {
    let (Some(mut hold), Some(blocks)) = (hold, &last.held) else { return Ok(None) };
    let answer = HeldAnswer {
        key: hold.registration.key().to_owned(),
        rank: hold.rank,
        engine_id: hold.engine_id,
        block_ids: blocks.iter().map(|block| block.0).collect(),
        number: hold.number,
        first_token: last.token,
    };
    hold.registration.hold(&answer, request, hold.digest, hold.timeout);
    if hold.wait_for_fetch && !hold.registration.fetched(hold.timeout).await {
        return Err(ApiError::internal("the decode engine did not fetch the blocks in time"));
    }
    Ok(Some(answer))
}

impl Generation {
    /// Starts every choice, in order: choice `index` is `prompt * n + sample`. Only the first sample of a prompt holds
    /// or fetches; the others find its blocks in the cache.
    pub(super) async fn start(&self, app: &Arc<App>) -> Result<Vec<Choice>, ApiError> {
        let prompts = (0..self.prompts.len()).map(|prompt| self.start_prompt(app, prompt));
        Ok(futures_util::future::try_join_all(prompts).await?.into_iter().flatten().collect())
    }

    async fn start_prompt(&self, app: &Arc<App>, prompt: usize) -> Result<Vec<Choice>, ApiError> {
        let first = match &self.hand_offs[prompt] {
            HandOff::None => Choice { ticket: self.submit(app, prompt, 0, None, false), hold: None },
            HandOff::Hold { key, wait_for_decode, number } => {
                self.start_held(app, prompt, key.clone(), *wait_for_decode, *number).await?
            }
            HandOff::Fetch(fetch) => self.start_fetched(app, prompt, fetch).await?,
        };
        let others =
            (1..self.n).map(|sample| Choice { ticket: self.submit(app, prompt, sample, None, false), hold: None });
        Ok(std::iter::once(first).chain(others).collect())
    }

    async fn start_held(
        &self,
        app: &Arc<App>,
        prompt: usize,
        key: Option<String>,
        wait_for_decode: bool,
        number: Option<u64>,
    ) -> Result<Choice, ApiError> {
        let key = key.unwrap_or_else(|| self.own_key(app));
        let registration = Registration::new(&app.transfers, key.clone())
            .ok_or_else(|| ApiError::bad_request(format!("a prefill named `{key}` is under way already")))?;
        if wait_for_decode && !registration.decode_connected().await {
            return Err(ApiError::internal(format!(
                "no decode engine connected to bootstrap room {key} in time: both calls must be made at once"
            )));
        }
        let rank = self.ranks[prompt];
        let hold = Hold {
            registration,
            digest: self.digest(prompt),
            rank,
            engine_id: app.engine_id(rank),
            number,
            timeout: app.config.transfer.hold_timeout,
            wait_for_fetch: wait_for_decode,
        };
        Ok(Choice { ticket: self.submit(app, prompt, 0, None, true), hold: Some(hold) })
    }

    /// The name of a prefill for which the engine makes it up: unique even when a request id is used twice. For
    /// TensorRT-LLM it is a number that needs all of a signed 64-bit integer.
    fn own_key(&self, app: &App) -> String {
        let unique = app.unique();
        match app.config.transfer.protocol {
            PdProtocol::Trtllm => {
                let mixed = crate::model::mix(unique ^ app.started.to_bits());
                ((mixed >> 1) | (1 << 61) | 1).to_string()
            }
            PdProtocol::Nixl | PdProtocol::Mooncake | PdProtocol::Sglang => format!("{}-{unique:08x}", self.id),
        }
    }

    /// Reserves blocks, fetches their content, and lets the request go on. Dropped half-way, everything is given up and freed.
    async fn start_fetched(&self, app: &Arc<App>, prompt: usize, wanted: &Fetch) -> Result<Choice, ApiError> {
        let pull = Pull {
            key: wanted.key.clone(),
            digest: self.digest(prompt),
            engine_id: wanted.engine_id.clone(),
            block_ids: wanted.block_ids.clone(),
            number: wanted.number,
            first_token: wanted.first_token,
            may_be_early: wanted.may_be_early,
        };
        // The prefill side waits up to its own limit; leave it the time to answer.
        let limit = app.transfers.rendezvous_timeout() + Duration::from_secs(5);
        // SGLang's prefill side ends what its decode side has left.
        let frees = app.config.transfer.protocol != PdProtocol::Sglang;
        let blocks = Wanted::new(&wanted.address, pull, limit, frees);
        let (reserved, ready) = oneshot::channel();
        let ticket = self.submit(app, prompt, 0, Some(reserved), false);
        ready.await.map_err(|_| ApiError::internal("the engine ended before it could fetch the prompt's blocks"))?;
        if let Err(error) = blocks.fetch().await {
            app.counts.failed_fetches.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = wanted.key, %error, "prompt blocks not fetched");
            if app.config.transfer.recompute_lost && error.is_loss() {
                return Ok(Choice { ticket: self.submit(app, prompt, 0, None, false), hold: None });
            }
            return Err(ApiError::internal(error.to_string()));
        }
        let tokens = self.prompts[prompt].len() as f64;
        tokio::time::sleep(app.config.speed.scaled(tokens / app.config.transfer.tokens_per_s)).await;
        app.counts.fetches.fetch_add(1, Ordering::Relaxed);
        ticket.loaded();
        Ok(Choice { ticket, hold: None })
    }

    fn digest(&self, prompt: usize) -> String {
        prompt_digest(&self.prompts[prompt], &self.scope)
    }

    fn submit(
        &self,
        app: &App,
        prompt: usize,
        sample: u32,
        reserved: Option<oneshot::Sender<()>>,
        hold: bool,
    ) -> Ticket {
        let spec = RequestSpec {
            prompt: self.prompts[prompt].clone(),
            scope: self.scope.clone(),
            max_tokens: self.max_tokens[prompt],
            stop_after: self.stop_after[prompt],
            answer: self.answer_tokens(app, prompt, sample),
            hold,
            load: reserved.is_some(),
        };
        app.ranks[self.ranks[prompt]].submit(Submission { spec, n: self.n, reserved })
    }
}
