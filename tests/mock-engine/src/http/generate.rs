//! What chat and completion requests have in common: limits, prompts, ranks, hand-offs.

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::app::App;
use super::body::Common;
use super::error::ApiError;
use crate::cache::CacheScope;
use crate::model::AnswerPlan;
use crate::sched::AnswerTokens;
use crate::transfer::{HandOff, PdProtocol, parse};

/// Which API answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Chat,
    Completion,
}

/// A request whose prompts are tokens.
pub(super) struct Asked<'a> {
    pub(super) api: Api,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Map<String, Value>,
    pub(super) common: &'a Common,
    pub(super) prompts: Vec<Vec<u32>>,
    /// Wanted answer length.
    pub(super) limit: Option<i64>,
}

/// A checked request, ready to be started.
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
    /// Per prompt: the rank that computes it.
    pub(super) ranks: Vec<usize>,
    /// Per prompt: what happens to its blocks.
    pub(super) hand_offs: Vec<HandOff>,
    pub(super) scope: CacheScope,
    pub(super) max_tokens: Vec<u32>,
    pub(super) stop_after: Vec<Option<u32>>,
    seed: u64,
}

impl Generation {
    /// Checks a request.
    pub(super) fn check(app: &App, asked: Asked<'_>) -> Result<Self, ApiError> {
        let Asked { api, headers, body, common, prompts, limit } = asked;
        check_request_model(app.config.transfer.protocol, api, body, limit)?;
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
        let transfer = &app.config.transfer;
        let hand_offs = parse(transfer.protocol, transfer.role, body, prompts.len())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut generation = Self {
            api,
            id: app.request_id(if api == Api::Chat { "chatcmpl" } else { "cmpl" }, headers),
            model_name: app.shown_model(common.model.as_deref()),
            n,
            stream,
            include_usage: options.include_usage.unwrap_or(false) || app.config.force_include_usage,
            continuous_usage: options.continuous_usage_stats.unwrap_or(false),
            return_token_ids: common.return_token_ids.unwrap_or(false),
            ranks: ranks(app, headers, &hand_offs)?,
            scope,
            max_tokens: Vec::new(),
            stop_after: Vec::new(),
            seed: app.config.seed.wrapping_add(common.seed.unwrap_or(0).cast_unsigned()),
            prompts,
            hand_offs,
        };
        for index in 0..generation.prompts.len() {
            generation.limit_answer(app, common, index, limit)?;
        }
        Ok(generation)
    }

    fn limit_answer(&mut self, app: &App, common: &Common, index: usize, limit: Option<u32>) -> Result<(), ApiError> {
        let prompt = &self.prompts[index];
        check_tokens(app, prompt)?;
        let limit = answer_limit(app, prompt.len(), limit)?.min(self.hand_off_limit(app, index));
        let one_token = self.hand_off_limit(app, index) == 1;
        self.max_tokens.push(limit);
        self.stop_after.push(if one_token { None } else { natural_end(app, self.api, common)? });
        Ok(())
    }

    /// Prefill engines of SGLang and TensorRT-LLM stop after the first token by themselves.
    fn hand_off_limit(&self, app: &App, index: usize) -> u32 {
        let own_limit = matches!(app.config.transfer.protocol, PdProtocol::Sglang | PdProtocol::Trtllm);
        if own_limit && matches!(self.hand_offs[index], HandOff::Hold { .. }) { 1 } else { u32::MAX }
    }

    /// The answer's tokens: words, and the end-of-sequence token where the answer ends by itself.
    pub(super) fn answer_tokens(&self, app: &App, prompt: usize, sample: u32) -> AnswerTokens {
        let plan = AnswerPlan::new(&self.prompts[prompt], self.seed, sample);
        let end = self.stop_after[prompt].zip(app.model.eos()).map(|(count, eos)| (count as usize - 1, eos));
        let model = app.model.clone();
        Box::new(move |index| match end {
            Some((last, eos)) if index == last => eos,
            _ => plan.token(model.words(), index).0,
        })
    }
}

/// The rank of each prompt: SGLang's bootstrap room decides it, else the header, else the load.
fn ranks(app: &App, headers: &HeaderMap, hand_offs: &[HandOff]) -> Result<Vec<usize>, ApiError> {
    let chosen = app.choose_rank(headers)?;
    let explicit = headers.contains_key("x-data-parallel-rank");
    let size = app.ranks.len() as u64;
    hand_offs
        .iter()
        .map(|hand_off| {
            let HandOff::Hold { key: Some(room), wait_for_decode: true, .. } = hand_off else { return Ok(chosen) };
            let by_room = (room.parse::<u64>().unwrap_or(0) % size) as usize;
            if explicit && by_room != chosen {
                return Err(ApiError::bad_field(
                    "bootstrap_room",
                    format!("room {room} belongs to data-parallel rank {by_room}, the request asks for {chosen}"),
                ));
            }
            Ok(by_room)
        })
        .collect()
}

/// What one engine's request model refuses and another's does not.
fn check_request_model(
    protocol: PdProtocol,
    api: Api,
    body: &Map<String, Value>,
    limit: Option<i64>,
) -> Result<(), ApiError> {
    const NEWER: &str = "max_completion_tokens";
    match protocol {
        // Two names of one field of chats, and unknown fields are forbidden.
        PdProtocol::Trtllm
            if body.contains_key(NEWER) && (api == Api::Completion || body.contains_key("max_tokens")) =>
        {
            Err(ApiError::bad_field(NEWER, "Extra inputs are not permitted"))
        }
        // Until March 2026 a demanded tool call had to be whole in the answer's text.
        PdProtocol::Nixl | PdProtocol::Mooncake
            if limit == Some(1) && body.get("tool_choice").and_then(Value::as_str) == Some("required") =>
        {
            Err(ApiError::bad_request("1 validation error for list[FunctionDefinition]: Invalid JSON: EOF"))
        }
        _ => Ok(()),
    }
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
fn natural_end(app: &App, api: Api, common: &Common) -> Result<Option<u32>, ApiError> {
    if common.ignore_eos.unwrap_or(false) {
        return Ok(None);
    }
    let least = common.min_tokens.unwrap_or(0);
    let asked = mock_argument(common.vllm_xargs.as_ref(), "mock_stop_after")?;
    let unlimited = common.max_tokens.is_none() && common.max_completion_tokens.is_none();
    let natural = (api == Api::Chat && unlimited).then_some(app.config.natural_output_tokens);
    Ok(asked.or(natural).map(|count| count.max(least).max(1)))
}

fn mock_argument(arguments: Option<&Map<String, Value>>, name: &str) -> Result<Option<u32>, ApiError> {
    let Some(value) = arguments.and_then(|arguments| arguments.get(name)) else { return Ok(None) };
    let number = value.as_u64().and_then(|value| u32::try_from(value).ok());
    number.map(Some).ok_or_else(|| ApiError::bad_field("vllm_xargs", format!("{name} must be a small whole number")))
}
