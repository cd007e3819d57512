//! What is remembered of a routed request until its end.

use std::rc::Rc;

use kv_routing::block::marks;
use kv_routing::policy::{BookingId, BookingRequest, Checkpoints, Choice, RecentId};
use kv_routing::target::TargetId;
use kv_routing::tokens::PreparedPrompt;
use kv_routing::wire::{Decision, Imagined, SourceState, TargetEntry, UnixMillis};

use super::prefill::{Call, Freeing};
use super::prompt::{Asked, Prompt};
use super::usage::UsageTail;
use crate::host::Host;
use crate::view::Pool;
use crate::vm::{EVENTS_MS, Vm, is_source, without_events};

/// A routed request.
#[derive(Debug)]
pub(super) struct Routed {
    pub(super) booking: BookingId,
    pub(super) pool: Rc<Pool>,
    pub(super) target: TargetId,
    pub(super) endpoint: String,
    pub(super) rank: Option<u32>,
    /// Cached tokens the target should report; `None` where nothing exact can be said.
    pub(super) predicted: Option<Predicted>,
    /// The decision, when a response header is to carry it.
    pub(super) explanation: Option<String>,
    pub(super) first_byte: bool,
    pub(super) failed: bool,
    /// What the bridge is to know, until it is told.
    pub(super) pending: Option<Pending>,
    /// The prefill elsewhere, while it may be under way.
    pub(super) prefill: Option<Call>,
    /// Of a request prefilled elsewhere.
    pub(super) by: HandedBy,
    /// Whether its answer is streamed.
    pub(super) streams: bool,
    /// Last bytes of the response, while they may hold the engine's report.
    pub(super) usage: Option<UsageTail>,
}

/// What is remembered of a hand-over; nothing of a request that was not handed over.
#[derive(Debug, Default)]
pub(super) struct HandedBy {
    /// The prefill target.
    pub(super) target: Option<TargetId>,
    /// When the decode call was let go, or the last phase of it ended (nanoseconds).
    pub(super) at: Option<u64>,
    /// Whether the request may be repeated at once when both calls, made together, fail.
    pub(super) may_repeat: bool,
    /// The decode call, until it is known to reach an engine that accepts it.
    pub(super) unfetched: Option<Box<Freeing>>,
}

/// Prompt tokens believed to be cached on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Predicted {
    pub(super) tokens: u32,
    pub(super) block: u32,
    /// Whether that is the whole prompt.
    pub(super) whole: bool,
}

/// A decision, until it is known what became of it.
#[derive(Debug)]
pub(super) struct Pending {
    decision: Decision,
    /// Its prompt among those that count as held.
    recent: Option<RecentId>,
}

impl Pending {
    /// The prompt counts as held by `target` from now on.
    pub(super) fn new(
        vm: &mut Vm,
        asked: &Asked,
        prompt: &Prompt,
        choice: &Choice,
        target: &TargetEntry,
        shadow: Option<Imagined>,
        now: UnixMillis,
    ) -> Self {
        let decision = decision(asked, prompt, choice, target, shadow, now);
        let recent = vm.count_as_held(&asked.pool, &decision, now);
        Self { decision, recent }
    }

    /// Tells what became of it: who has computed the prompt (`None`: who was to), if anyone has.
    pub(super) fn settle(
        self,
        vm: &mut Vm,
        host: &impl Host,
        pool: &Pool,
        by: Option<TargetId>,
        answered: bool,
        now: UnixMillis,
    ) {
        let target = by.unwrap_or(self.decision.target);
        let moved = self.decision.target != target;
        let decision = Decision { target, answered, ..self.decision };
        match self.recent {
            Some(recent) if moved || !answered => vm.recent.retract(recent),
            Some(recent) if is_source(pool, target, SourceState::Exact) => {
                vm.recent.shorten(recent, UnixMillis(now.0.saturating_add(EVENTS_MS)));
            }
            _ => {}
        }
        if answered && (moved || without_events(pool, target)) {
            vm.count_as_held(pool, &decision, now);
        }
        vm.report(host, decision, now);
    }
}

/// Puts the load of a request on its target.
pub(super) fn book(
    vm: &mut Vm,
    asked: &Asked,
    prompt: &Prompt,
    choice: &Choice,
    target: &TargetEntry,
    checkpoints: Checkpoints,
    now: UnixMillis,
) -> BookingId {
    let request = BookingRequest {
        target: target.id,
        blocks: prompt.prepared.tokens.div_ceil(prompt.block_size.tokens()),
        prefill_tokens: choice.prefill_tokens.saturating_mul(asked.prompts.into()),
        checkpoints,
    };
    book_request(vm, request, now)
}

/// Puts a load on its target.
pub(super) fn book_request(vm: &mut Vm, request: BookingRequest, now: UnixMillis) -> BookingId {
    let target = request.target;
    let booking = vm.ledger.book(request);
    vm.note_peak(target, now);
    booking
}

/// The decision as the bridge gets it.
fn decision(
    asked: &Asked,
    prompt: &Prompt,
    choice: &Choice,
    target: &TargetEntry,
    shadow: Option<Imagined>,
    now: UnixMillis,
) -> Decision {
    let PreparedPrompt { tokens, exact_tokens, chain, head, .. } = &prompt.prepared;
    let certain = prompt.block_size.full_blocks(*exact_tokens);
    Decision {
        at: now,
        pool: asked.pool.manifest.id,
        target: target.id,
        answered: false,
        prompt_tokens: *tokens,
        predicted_blocks: choice.overlap.total(),
        block_size: prompt.block_size.tokens(),
        blocks: u32::try_from(chain.len()).unwrap_or(u32::MAX),
        certain_blocks: certain,
        marks: marks(chain.get(..certain as usize).unwrap_or(chain)),
        head: head.clone(),
        seed: prompt.seed.value(),
        adapter: asked.is_adapter,
        shadow,
    }
}
