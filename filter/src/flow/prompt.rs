//! From a parsed body to a chain of block hashes, in slices where the prompt is long.

use std::rc::Rc;

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::openai::{Exactness, InferenceRequest, PromptInput};
use kv_routing::policy::{PREFIX_TOKENS, prefix_key};
use kv_routing::tokens::{CacheLimits, HashPlan, Preparation, PreparedPrompt, Progress, prepare_tokens};
use kv_routing::wire::{TokenizerRef, UnixMillis};

use super::policy::Ruled;
use super::{Flow, Next, State, Unrouted, micros_since};
use crate::counters::Counter;
use crate::host::Host;
use crate::view::Pool;
use crate::vm::Vm;

/// Tokens per block that loads are priced by while a pool's own size is not known.
const PRICING_BLOCK: u32 = 16;
/// Bytes per token where tokens can only be estimated.
const BYTES_PER_TOKEN: usize = 4;

/// What is known of a request besides its prompt.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) pool: Rc<Pool>,
    pub(super) model: String,
    pub(super) is_adapter: bool,
    pub(super) stream: bool,
    pub(super) prompts: u32,
    pub(super) ruled: Ruled,
}

/// A request between two slices of its prompt.
#[derive(Debug)]
pub(super) struct Waiting {
    asked: Asked,
    preparation: Box<Preparation>,
    tokenizer: TokenizerRef,
    block_size: BlockSize,
    /// Should the tokenizer go away meanwhile.
    fallback: Prompt,
}

/// A prompt as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    /// Chain and number of tokens; the latter an estimate when `exact` is false.
    pub(super) prepared: PreparedPrompt,
    pub(super) block_size: BlockSize,
    /// Whether tokens, and so the chain, are the engine's.
    pub(super) exact: bool,
    /// Key of the prefix.
    pub(super) prefix: Option<u64>,
}

impl Prompt {
    fn exact(prepared: PreparedPrompt, block_size: BlockSize) -> Self {
        let prefix = prefix_key(&prepared.chain, block_size, b"", PREFIX_TOKENS);
        Self { prepared, block_size, exact: true, prefix }
    }

    fn estimated(body: &[u8], block_size: BlockSize) -> Self {
        let tokens = u32::try_from(body.len() / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        let prepared = PreparedPrompt { tokens, ..PreparedPrompt::default() };
        let prefix = prefix_key(&[], block_size, conversation(body), PREFIX_TOKENS);
        Self { prepared, block_size, exact: false, prefix }
    }
}

impl Flow {
    pub(super) fn prepare(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        request: &InferenceRequest<'_>,
        body: &[u8],
        asked: Asked,
        now: UnixMillis,
    ) -> Next {
        let estimate = |block_size| Prompt::estimated(body, block_size);
        let Some(needs_tokens) = asked.needs_tokens(host, &self.config.policy) else {
            return self.unrouted(vm, host, Unrouted::PolicyPass);
        };
        let Some(block_size) = asked.pool.block_size() else {
            vm.counters.count(host, Counter::InexactNoBlockSize);
            let Some(pricing) = BlockSize::new(PRICING_BLOCK) else {
                return self.unrouted(vm, host, Unrouted::Internal);
            };
            return self.decide(vm, host, asked, estimate(pricing));
        };
        if !needs_tokens {
            return self.decide(vm, host, asked, estimate(block_size));
        }
        let adapter = asked.is_adapter.then_some(asked.model.as_str());
        let plan = HashPlan { block_size, seed: HashSeed::new(adapter, request.cache_salt.as_deref()) };
        match begin(vm, host, request, &asked.pool, plan, self.config.cache_bytes, now) {
            Ok(Begun::Ready(prepared)) => self.decide(vm, host, asked, Prompt::exact(prepared, block_size)),
            Ok(Begun::Text(preparation, tokenizer)) => {
                let fallback = estimate(block_size);
                let waiting = Waiting { asked, preparation, tokenizer, block_size, fallback };
                self.state = State::Preparing(Box::new(waiting));
                self.advance(vm, host)
            }
            Err(inexact) => {
                vm.counters.count(host, inexact);
                self.decide(vm, host, asked, estimate(block_size))
            }
        }
    }

    /// Does one slice.
    pub(super) fn advance(&mut self, vm: &mut Vm, host: &impl Host) -> Next {
        let began = host.now_nanos();
        let State::Preparing(mut waiting) = std::mem::replace(&mut self.state, State::Over) else {
            return Next::Release;
        };
        let Some(prompter) = vm.tokenizers.loaded(waiting.tokenizer.id) else {
            vm.counters.count(host, Counter::InexactTokenizerFailed);
            return self.decide(vm, host, waiting.asked, waiting.fallback);
        };
        let progress = prompter.advance(&mut waiting.preparation, self.config.slice_bytes);
        self.timings.prompt = self.timings.prompt.saturating_add(micros_since(host, began));
        match progress {
            Progress::Done(prepared) => {
                let prompt = Prompt::exact(prepared, waiting.block_size);
                self.decide(vm, host, waiting.asked, prompt)
            }
            Progress::More => {
                vm.counters.count(host, Counter::Slices);
                self.state = State::Preparing(waiting);
                Next::AwaitSlice
            }
        }
    }
}

enum Begun {
    Ready(PreparedPrompt),
    Text(Box<Preparation>, TokenizerRef),
}

/// Starts on a prompt.
///
/// # Errors
/// The counter of the reason why it cannot be tokenized exactly.
fn begin(
    vm: &mut Vm,
    host: &impl Host,
    request: &InferenceRequest<'_>,
    pool: &Pool,
    plan: HashPlan,
    cache_bytes: u32,
    now: UnixMillis,
) -> Result<Begun, Counter> {
    match request.exactness {
        Exactness::Exact => {}
        Exactness::UpToMedia => vm.counters.count(host, Counter::UpToMedia),
        Exactness::Approximate(_) => return Err(Counter::InexactBody),
    }
    match &request.prompt {
        PromptInput::Tokens(tokens) => return Ok(Begun::Ready(prepare_tokens(tokens, plan))),
        PromptInput::Absent => return Err(Counter::InexactPrompt),
        PromptInput::Text(_) | PromptInput::Chat(_) => {}
    }
    let tokenizer = pool.manifest.tokenizer.ok_or(Counter::InexactNoTokenizer)?;
    let generation = vm.view.header().ok_or(Counter::InexactTokenizerFailed)?.generation;
    let limits = CacheLimits { bytes: cache_bytes };
    let prompter =
        vm.tokenizers.get(host, &vm.counters, tokenizer, limits, generation).ok_or(Counter::InexactTokenizerFailed)?;
    let preparation = prompter.begin(request, plan, now).map_err(|_| Counter::InexactPrompt)?;
    Ok(Begun::Text(Box::new(preparation), tokenizer))
}

/// The part of a body that begins with the conversation, so that equal conversations have equal prefixes whatever options
/// stand before them.
fn conversation(body: &[u8]) -> &[u8] {
    const FIELDS: [&[u8]; 4] = [b"\"messages\"", b"\"prompt\"", b"\"input\"", b"\"input_ids\""];
    /// Options before the prompt are short; looking further would only cost time.
    const LOOK: usize = 4096;
    let head = body.get(..LOOK).unwrap_or(body);
    let starts = FIELDS.iter().filter_map(|field| head.windows(field.len()).position(|window| window == *field));
    starts.min().and_then(|start| body.get(start..)).unwrap_or(body)
}
