//! From a parsed body to a chain of block hashes, in slices where the prompt is long.

use std::rc::Rc;

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::openai::{Exactness, InferenceRequest, PromptInput};
use kv_routing::policy::{PREFIX_TOKENS, estimate, prefix_key};
use kv_routing::tokens::{CacheLimits, HashPlan, Preparation, PreparedPrompt, Progress, prepare_tokens};
use kv_routing::wire::{TokenizerRef, UnixMillis};

use super::policy::Ruled;
use super::{Flow, Next, State, Unrouted};
use crate::counters::Counter;
use crate::host::Host;
use crate::view::Pool;
use crate::vm::Vm;

/// What is known of a request besides its prompt.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) pool: Rc<Pool>,
    pub(super) model: String,
    pub(super) is_adapter: bool,
    pub(super) stream: bool,
    pub(super) prompts: u32,
    /// One prompt, answered once: then the engine's report of cached tokens is about what was routed.
    pub(super) single: bool,
    pub(super) ruled: Ruled,
}

impl Asked {
    /// Adapter the request is for.
    pub(super) fn adapter(&self) -> Option<&str> {
        self.is_adapter.then_some(self.model.as_str())
    }
}

/// A request between two slices of its prompt.
#[derive(Debug)]
pub(super) struct Waiting {
    asked: Asked,
    preparation: Box<Preparation>,
    tokenizer: TokenizerRef,
    plan: HashPlan,
    /// Should the tokenizer go away meanwhile, or too much be waiting already.
    fallback: Prompt,
    /// It has had a turn.
    waited: bool,
}

impl Waiting {
    /// Bytes of text that wait with it.
    pub(super) fn bytes(&self) -> u64 {
        self.preparation.bytes() as u64
    }
}

/// A prompt as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    /// Chain and number of tokens; the latter an estimate when `exact` is false.
    pub(super) prepared: PreparedPrompt,
    pub(super) block_size: BlockSize,
    /// Whether tokens, and so the chain, are the engine's.
    pub(super) exact: bool,
    /// Whether the bridge made them.
    pub(super) by_bridge: bool,
    /// Key of the prefix.
    pub(super) prefix: Option<u64>,
    /// Of the chain's hashes.
    pub(super) seed: HashSeed,
}

impl Prompt {
    pub(super) fn exact(prepared: PreparedPrompt, plan: HashPlan) -> Self {
        let HashPlan { block_size, seed } = plan;
        let prefix = prefix_key(&prepared.chain, block_size, b"", PREFIX_TOKENS);
        Self { prepared, block_size, exact: true, by_bridge: false, prefix, seed }
    }

    #[inline(never)]
    fn estimated(body: &[u8], block_size: BlockSize) -> Self {
        let (tokens, prefix) = estimate(body, block_size);
        let prepared = PreparedPrompt { tokens, ..PreparedPrompt::default() };
        Self { prepared, block_size, exact: false, by_bridge: false, prefix, seed: HashSeed::default() }
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
        let estimated = |block_size| Prompt::estimated(body, block_size);
        let Some(needs_tokens) = asked.needs_tokens(&self.config.policy) else {
            return self.unrouted(vm, host, Unrouted::PolicyPass);
        };
        let Some(block_size) = asked.pool.block_size() else {
            vm.counters.count(host, Counter::InexactNoBlockSize);
            return self.decide(vm, host, asked, estimated(BlockSize::PRICING));
        };
        if !needs_tokens {
            return self.decide(vm, host, asked, estimated(block_size));
        }
        let approximate = matches!(request.exactness, Exactness::Approximate(_));
        if !approximate && asked.pool.manifest.bridge.takes(&request.prompt) {
            return self.ask_bridge(vm, host, body, asked, block_size, estimated(block_size));
        }
        let plan = HashPlan { block_size, seed: HashSeed::new(asked.adapter(), request.cache_salt.as_deref()) };
        match begin(vm, host, request, &asked.pool, plan, self.config.cache_bytes, now) {
            Ok(Begun::Ready(prepared)) => {
                self.timings.tokenize = self.lap(host);
                self.decide(vm, host, asked, Prompt::exact(prepared, plan))
            }
            Ok(Begun::Text(preparation, tokenizer)) => {
                self.timings.template = self.lap(host);
                let fallback = estimated(block_size);
                let waiting = Waiting { asked, preparation, tokenizer, plan, fallback, waited: false };
                self.slice(vm, host, Box::new(waiting))
            }
            Err(inexact) => {
                vm.counters.count(host, inexact);
                self.decide(vm, host, asked, estimated(block_size))
            }
        }
    }

    /// Bytes of a prompt that has slices left.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        if let State::Preparing(waiting) = &self.state { waiting.bytes() } else { 0 }
    }

    /// Goes on for one turn of its prompt, or with the prefill call.
    pub(super) fn advance(&mut self, vm: &mut Vm, host: &impl Host) -> Next {
        self.start_timing(host);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Preparing(waiting) => self.slice(vm, host, waiting),
            State::Handing(handing) => self.send_prefill(vm, host, handing),
            State::Freeing(freeing) => self.free(vm, host, freeing),
            _ => Next::Release,
        }
    }

    /// Does slices until the turn is over: a timer takes longer to come round than a slice. Called from two places, and large
    /// once the decision behind it is inlined.
    #[inline(never)]
    fn slice(&mut self, vm: &mut Vm, host: &impl Host, mut waiting: Box<Waiting>) -> Next {
        let ends = self.mark.saturating_add(u64::from(self.config.turn_us) * 1000);
        loop {
            let Some(prompter) = vm.tokenizers.loaded(waiting.tokenizer.id) else {
                vm.counters.count(host, Counter::InexactTokenizerFailed);
                return self.decide(vm, host, waiting.asked, waiting.fallback);
            };
            let progress = prompter.advance(&mut waiting.preparation, self.config.slice_bytes);
            self.timings.tokenize = self.timings.tokenize.saturating_add(self.lap(host));
            if let Progress::Done(prepared) = progress {
                let prompt = Prompt::exact(prepared, waiting.plan);
                return self.decide(vm, host, waiting.asked, prompt);
            }
            vm.counters.count(host, Counter::Slices);
            if self.mark >= ends {
                let waits = waiting.bytes() + vm.held.bytes();
                if !std::mem::replace(&mut waiting.waited, true) && waits > u64::from(self.config.max_waiting_bytes) {
                    vm.counters.count(host, Counter::InexactCrowded);
                    return self.decide(vm, host, waiting.asked, waiting.fallback);
                }
                self.state = State::Preparing(waiting);
                return Next::AwaitSlice;
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
