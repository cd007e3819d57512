//! What chat and completion requests have in common: limits, prompts, rank, submission.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::app::App;
use super::body::Common;
use super::error::ApiError;
use crate::cache::CacheScope;
use crate::engine::{Submission, Ticket};
use crate::model::{AnswerPlan, Model};
use crate::sched::RequestSpec;

/// Which API answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Chat,
    Completion,
}

/// A checked request, ready to be submitted.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) api: Api,
    pub(super) id: String,
    pub(super) model_name: String,
    pub(super) prompts: Vec<Vec<u32>>,
    pub(super) n: u32,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) rank: usize,
    scope: CacheScope,
    max_tokens: Vec<u32>,
    stop_after: Vec<Option<u32>>,
    seed: u64,
}

impl Generation {
    /// Checks a request whose prompts are tokens already. `limit` is the wanted answer length, if any.
    pub(super) fn check(
        app: &App,
        api: Api,
        headers: &HeaderMap,
        common: &Common,
        prompts: Vec<Vec<u32>>,
        limit: Option<i64>,
    ) -> Result<Self, ApiError> {
        let scope = app.scope(common.model.as_deref(), common.cache_salt.clone())?;
        let n = positive("n", common.n.unwrap_or(1))?;
        let limit = limit.map(|limit| positive("max_tokens", limit)).transpose()?;
        let options = common.stream_options.unwrap_or_default();
        let stream = common.stream.unwrap_or(false);
        if common.stream_options.is_some() && !stream {
            return Err(ApiError::bad_field(
                "stream_options",
                "Stream options can only be defined when `stream=True`.",
            ));
        }
        let mut max_tokens = Vec::new();
        let mut stop_after = Vec::new();
        for prompt in &prompts {
            check_tokens(app, prompt)?;
            max_tokens.push(answer_limit(app, prompt.len(), limit)?);
            stop_after.push(natural_end(app, api, common, limit)?);
        }
        let prefix = if api == Api::Chat { "chatcmpl" } else { "cmpl" };
        Ok(Self {
            api,
            id: app.request_id(prefix, headers),
            model_name: app.shown_model(common.model.as_deref()),
            prompts,
            n,
            stream,
            include_usage: options.include_usage.unwrap_or(false) || app.config.force_include_usage,
            continuous_usage: options.continuous_usage_stats.unwrap_or(false),
            return_token_ids: common.return_token_ids.unwrap_or(false),
            rank: app.choose_rank(headers)?,
            scope,
            max_tokens,
            stop_after,
            seed: app.config.seed.wrapping_add(common.seed.unwrap_or(0).cast_unsigned()),
        })
    }

    /// Hands every (prompt, sample) to the rank. Choice `index` is `prompt * n + sample`.
    pub(super) fn submit(&self, app: &App) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for (index, prompt) in self.prompts.iter().enumerate() {
            for sample in 0..self.n {
                let spec = RequestSpec {
                    prompt: prompt.clone(),
                    scope: self.scope.clone(),
                    max_tokens: self.max_tokens[index],
                    stop_after: self.stop_after[index],
                    answer: answer_tokens(&app.model, prompt, self.seed, sample, self.stop_after[index]),
                };
                tickets.push(app.ranks[self.rank].submit(Submission { spec, n: self.n }));
            }
        }
        tickets
    }
}

/// The answer's tokens: words, and the end-of-sequence token where the answer ends by itself.
fn answer_tokens(
    model: &Arc<Model>,
    prompt: &[u32],
    seed: u64,
    sample: u32,
    stop_after: Option<u32>,
) -> Box<dyn Fn(usize) -> u32 + Send> {
    let plan = AnswerPlan::new(prompt, seed, sample);
    let end = stop_after.zip(model.eos()).map(|(count, eos)| (count as usize - 1, eos));
    let model = model.clone();
    Box::new(move |index| match end {
        Some((last, eos)) if index == last => eos,
        _ => plan.token(model.words(), index).0,
    })
}

fn positive(param: &'static str, value: i64) -> Result<u32, ApiError> {
    u32::try_from(value)
        .ok()
        .filter(|value| *value > 0)
        .ok_or_else(|| ApiError::bad_field(param, format!("{param} must be at least 1, got {value}.")))
}

fn check_tokens(app: &App, prompt: &[u32]) -> Result<(), ApiError> {
    if prompt.is_empty() {
        return Err(ApiError::bad_field("prompt", "The decoder prompt cannot be empty"));
    }
    let vocabulary = app.model.vocab_size();
    match prompt.iter().find(|token| **token >= vocabulary) {
        Some(token) => Err(ApiError::bad_field("prompt", format!("Token id {token} is out of vocabulary"))),
        None => Ok(()),
    }
}

fn answer_limit(app: &App, prompt_len: usize, limit: Option<u32>) -> Result<u32, ApiError> {
    let longest = app.max_model_len;
    let room = u32::try_from(prompt_len).ok().and_then(|len| longest.checked_sub(len)).filter(|room| *room > 0);
    let Some(room) = room else {
        return Err(ApiError::bad_field(
            "input_tokens",
            format!(
                "This model's maximum context length is {longest} tokens. However, your request has {prompt_len} input \
                 tokens. Please reduce the length of the input messages."
            ),
        ));
    };
    match limit {
        Some(limit) if limit > room => Err(ApiError::bad_field(
            "max_tokens",
            format!(
                "'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum context length is \
                 {longest} tokens and your request has {prompt_len} input tokens ({limit} > {longest} - {prompt_len})."
            ),
        )),
        Some(limit) => Ok(limit),
        None => Ok(room),
    }
}

/// After how many tokens the answer ends by itself: as `vllm_xargs.mock_stop_after` says, else only where the request
/// sets no limit.
fn natural_end(app: &App, api: Api, common: &Common, limit: Option<u32>) -> Result<Option<u32>, ApiError> {
    if common.ignore_eos.unwrap_or(false) {
        return Ok(None);
    }
    let least = common.min_tokens.unwrap_or(0);
    let asked = mock_argument(common.vllm_xargs.as_ref(), "mock_stop_after")?;
    let natural = (api == Api::Chat && limit.is_none()).then_some(app.config.natural_output_tokens);
    Ok(asked.or(natural).map(|count| count.max(least).max(1)))
}

fn mock_argument(arguments: Option<&Map<String, Value>>, name: &str) -> Result<Option<u32>, ApiError> {
    let Some(value) = arguments.and_then(|arguments| arguments.get(name)) else { return Ok(None) };
    let number = value.as_u64().and_then(|value| u32::try_from(value).ok());
    number.map(Some).ok_or_else(|| ApiError::bad_field("vllm_xargs", format!("{name} must be a small whole number")))
}
