//! A question up to the point where the index is needed.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kv_routing::block::{BlockSize, HashSeed, SequenceHash};
use kv_routing::openai::{BodyError, Endpoint, Exactness, InferenceRequest, PromptInput, parse};
use kv_routing::policy::document::{Facts, Mode, Policy, RuleSet, Selection};
use kv_routing::policy::{PREFIX_TOKENS, Timings, estimate, prefix_key};
use kv_routing::tokens::{CacheLimits, HashPlan, PreparedPrompt, Progress, Prompter, prepare_tokens};
use kv_routing::wire::{PoolId, TargetTable, UnixMillis, WireError};
use thiserror::Error;

use crate::publish::{Desired, PoolView, TokenizerParts};

/// Name of the rule of requests that no rule matches.
const DEFAULT_RULE: &str = "default";
/// Nothing is cached from one question to the next.
const CACHE_BYTES: u32 = 1 << 20;

/// A request as a client would send it.
#[derive(Clone, Debug)]
pub struct Question {
    /// Path it would be sent to.
    pub endpoint: Endpoint,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body.
    pub body: Bytes,
    /// When.
    pub now: UnixMillis,
}

/// Why there is nothing to explain: the filter would leave the request to Envoy.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// Not a body the filter reads.
    #[error("the body cannot be read, so the filter leaves such a request to Envoy: {0}")]
    Body(#[from] BodyError),
    /// No pool serves the model.
    #[error("no pool serves model `{model}`, so the filter leaves such a request to Envoy; there are: {known}")]
    UnknownModel {
        /// What the body names.
        model: String,
        /// Names that pools serve.
        known: String,
    },
    /// The body names none.
    #[error("the body names no `model`, and there is not exactly one pool that could be meant")]
    NoModel,
    /// The bridge's own table.
    #[error("the target table of the pool cannot be read: {0}")]
    Table(#[from] WireError),
}

/// A question whose pool, policy and chain are known.
#[derive(Debug)]
pub struct Asked {
    pub(super) pool: Arc<PoolView>,
    pub(super) table: TargetTable,
    pub(super) model: String,
    pub(super) policy: Policy,
    pub(super) rule: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) prompt: Prompt,
    pub(super) now: UnixMillis,
    pub(super) timings: Timings,
}

/// A prompt as far as it is known.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) tokens: u32,
    pub(super) chain: Vec<SequenceHash>,
    pub(super) block_size: BlockSize,
    pub(super) prefix: Option<u64>,
    /// Why the tokens are not the engine's, when they are not.
    pub(super) estimated: Option<String>,
}

impl Asked {
    /// Reads a question against what Envoys are given. Loads a tokenizer, which takes tens of milliseconds.
    ///
    /// # Errors
    /// [`ExplainError`].
    pub fn read(question: &Question, desired: &Desired, rules: &RuleSet) -> Result<Self, ExplainError> {
        let began = Instant::now();
        let request = parse(question.endpoint, &question.body)?;
        let (pool, adapter) = find(desired, request.model.as_deref())?;
        let table = TargetTable::decode(&pool.table)?;
        let model = request.model.as_deref().unwrap_or(&pool.manifest.name).to_owned();
        let timings = Timings { parse: micros(began), ..Timings::default() };
        let header = |name: &str| header(&question.headers, name);
        let facts = |prompt_tokens| Facts {
            model: &model,
            adapter: adapter.then_some(model.as_str()),
            path: question.endpoint.path(),
            stream: request.stream,
            priority: request.priority.unwrap_or(0),
            prompt_tokens,
            header: &header,
        };
        let wants_tokens = match rules.select(&facts(None)) {
            Selection::NeedsTokens => true,
            Selection::Chosen(policy, _) => policy.needs_tokens(),
        };
        let mut asked = Self {
            table,
            model: model.clone(),
            policy: Policy::named("default"),
            rule: DEFAULT_RULE.to_owned(),
            headers: question.headers.clone(),
            prompt: Prompt::estimated(&question.body, &pool, "the policy does not look at tokens"),
            now: question.now,
            timings,
            pool,
        };
        if wants_tokens {
            asked.tokenize(&request, question, adapter.then_some(model.as_str()));
        }
        if let Selection::Chosen(policy, rule) = rules.select(&facts(Some(asked.prompt.tokens))) {
            asked.policy = policy.clone();
            asked.rule = rule.map_or(DEFAULT_RULE, |rule| rule.name.as_str()).to_owned();
        }
        asked.aim_prefix();
        Ok(asked)
    }

    /// Number of its pool.
    pub fn pool(&self) -> PoolId {
        self.pool.manifest.id
    }

    /// Chain to be looked up.
    pub fn chain(&self) -> &[SequenceHash] {
        &self.prompt.chain
    }

    fn tokenize(&mut self, request: &InferenceRequest<'_>, question: &Question, adapter: Option<&str>) {
        let Some(block_size) = self.pool.manifest.block_size() else {
            return self.stay_estimated("the pool's block size is not known yet");
        };
        if self.pool.manifest.bridge.takes(&request.prompt) {
            return self.stay_estimated("the bridge tokenizes such prompts of the pool, which is not repeated here");
        }
        let plan = HashPlan { block_size, seed: HashSeed::new(adapter, request.cache_salt.as_deref()) };
        match prepare(request, self.pool.tokenizer.as_deref(), plan, question.now, &mut self.timings) {
            Ok(prepared) => self.prompt = Prompt::exact(prepared, block_size),
            Err(why) => self.stay_estimated(&why),
        }
    }

    fn stay_estimated(&mut self, why: &str) {
        self.prompt.estimated = Some(why.to_owned());
    }

    /// A prefix-hash policy has a length of its own.
    fn aim_prefix(&mut self) {
        if let (Mode::PrefixHash { tokens, .. }, None) = (&self.policy.mode, &self.prompt.estimated) {
            self.prompt.prefix = prefix_key(&self.prompt.chain, self.prompt.block_size, b"", *tokens);
        }
    }
}

impl Prompt {
    fn exact(prepared: PreparedPrompt, block_size: BlockSize) -> Self {
        let prefix = prefix_key(&prepared.chain, block_size, b"", PREFIX_TOKENS);
        Self { tokens: prepared.tokens, chain: prepared.chain, block_size, prefix, estimated: None }
    }

    fn estimated(body: &[u8], pool: &PoolView, why: &str) -> Self {
        let block_size = pool.manifest.block_size().unwrap_or(BlockSize::PRICING);
        let (tokens, prefix) = estimate(body, block_size);
        Self { tokens, chain: Vec::new(), block_size, prefix, estimated: Some(why.to_owned()) }
    }
}

/// The value of a header.
pub(super) fn header(headers: &[(String, Vec<u8>)], name: &str) -> Option<Vec<u8>> {
    headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
}

pub(super) fn micros(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX)
}

/// The pool of a model, and whether the model is an adapter there.
fn find(desired: &Desired, model: Option<&str>) -> Result<(Arc<PoolView>, bool), ExplainError> {
    let pools = || desired.pools.iter().flatten();
    let Some(model) = model else {
        let mut pools = pools();
        return match (pools.next(), pools.next()) {
            (Some(only), None) => Ok((Arc::clone(only), false)),
            _ => Err(ExplainError::NoModel),
        };
    };
    let serves = |names: &[String]| names.iter().any(|name| name == model);
    let found = pools().find_map(|pool| {
        let manifest = &pool.manifest;
        let adapter = serves(&manifest.adapters);
        (adapter || serves(&manifest.models)).then(|| (Arc::clone(pool), adapter && !serves(&manifest.models)))
    });
    found.ok_or_else(|| {
        let known: Vec<&str> = pools()
            .flat_map(|pool| pool.manifest.models.iter().chain(&pool.manifest.adapters))
            .map(String::as_str)
            .collect();
        ExplainError::UnknownModel { model: model.to_owned(), known: known.join(", ") }
    })
}

/// Tokens and hashes of a prompt, or why there are none.
fn prepare(
    request: &InferenceRequest<'_>,
    tokenizer: Option<&TokenizerParts>,
    plan: HashPlan,
    now: UnixMillis,
    timings: &mut Timings,
) -> Result<PreparedPrompt, String> {
    if let Exactness::Approximate(reason) = request.exactness {
        return Err(format!("only the engine can resolve the body: {}", reason.as_str()));
    }
    if let PromptInput::Tokens(tokens) = &request.prompt {
        let began = Instant::now();
        let prepared = prepare_tokens(tokens, plan);
        timings.tokenize = micros(began);
        return Ok(prepared);
    }
    let parts = tokenizer.ok_or("the pool has no tokenizer")?;
    let mut prompter = Prompter::load(parts.parts.concat(), CacheLimits { bytes: CACHE_BYTES })
        .map_err(|error| format!("the tokenizer cannot be loaded: {error}"))?;
    let began = Instant::now();
    let mut preparation = prompter.begin(request, plan, now).map_err(|error| error.to_string())?;
    timings.template = micros(began);
    let began = Instant::now();
    loop {
        if let Progress::Done(prepared) = prompter.advance(&mut preparation, u32::MAX) {
            timings.tokenize = micros(began);
            return Ok(prepared);
        }
    }
}
