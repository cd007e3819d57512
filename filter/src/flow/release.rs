//! Book the load, name the targets, let the request go.

use kv_routing::policy::document::ExplainLevel;
use kv_routing::policy::{BookingId, Checkpoints, Choice, Explanation, HandoffShown, Rung, Trace, Whole};
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::book::{HandedBy, Pending, Predicted, Routed, book};
use super::decide::endpoint_list;
use super::policy::Said;
use super::prefill::Call;
use super::prompt::{Asked, Prompt};
use super::usage::UsageTail;
use super::{Flow, Next, State, millis};
use crate::counters::Counter;
use crate::host::Host;
use crate::names;
use crate::vm::Vm;

/// What is known of a request when it is released.
pub(super) struct Released<'a> {
    pub(super) booking: BookingId,
    /// What the bridge is yet to know.
    pub(super) pending: Option<Pending>,
    pub(super) predicted: Option<Predicted>,
    /// The prefill under way elsewhere.
    pub(super) prefill: Option<Call>,
    /// Where it was prefilled.
    pub(super) handoff: Option<HandoffShown<'a>>,
    /// The same for its end.
    pub(super) by: HandedBy,
}

impl Flow {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn release_routed(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        asked: Asked,
        prompt: &Prompt,
        choice: &Choice,
        target: &TargetEntry,
        said: &Said,
        checkpoints: Checkpoints,
        now: UnixMillis,
    ) -> Next {
        let booking = book(vm, &asked, prompt, choice, target, checkpoints, now);
        let pending = Pending::new(vm, &asked, prompt, choice, target, said.imagined, now);
        vm.flush_row(host, now);
        if said.whole.is_some() {
            vm.counters.count(host, Counter::HandoffWhole);
        }
        let predicted = predicted(&asked, prompt, choice);
        count(vm, host, prompt, choice, predicted);
        let by = HandedBy::default();
        let released = Released { booking, pending: Some(pending), predicted, prefill: None, handoff: None, by };
        self.let_go(host, asked, prompt, choice, target, said, released)
    }

    /// Names the targets of a request that is booked, and releases it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn let_go(
        &mut self,
        host: &impl Host,
        asked: Asked,
        prompt: &Prompt,
        choice: &Choice,
        target: &TargetEntry,
        said: &Said,
        released: Released<'_>,
    ) -> Next {
        let Released { booking, pending, predicted, prefill, handoff, by } = released;
        self.name_targets(host, &asked, choice, target);
        let explanation = self.explain(host, &asked, prompt, choice, said, handoff);
        self.state = State::Routed(Box::new(Routed {
            booking,
            target: target.id,
            endpoint: target.endpoint.clone(),
            rank: target.rank,
            predicted,
            explanation,
            first_byte: false,
            failed: false,
            pending,
            prefill,
            by,
            streams: asked.stream,
            usage: Some(UsageTail::new(asked.stream)),
            pool: asked.pool,
        }));
        Next::Release
    }

    fn name_targets(&self, host: &impl Host, asked: &Asked, choice: &Choice, target: &TargetEntry) {
        let list = endpoint_list(&asked.pool.targets, &choice.order);
        host.set_request_header(names::DESTINATION, list.as_bytes());
        if let Some(rank) = target.rank {
            host.set_request_header(names::RANK, rank.to_string().as_bytes());
        }
        if self.config.model_header {
            host.set_request_header(names::MODEL, asked.model.as_bytes());
        }
    }

    /// Writes the decision into filter state; returns it when a response header is to carry it too.
    #[allow(clippy::too_many_arguments)]
    fn explain(
        &self,
        host: &impl Host,
        asked: &Asked,
        prompt: &Prompt,
        choice: &Choice,
        said: &Said,
        handoff: Option<HandoffShown<'_>>,
    ) -> Option<String> {
        if said.explain == ExplainLevel::Off {
            return None;
        }
        let explanation = Explanation {
            pool: &asked.pool.manifest.name,
            policy: &said.policy,
            rule: &said.rule,
            tokens: prompt.prepared.tokens,
            blocks: u32::try_from(prompt.prepared.chain.len()).unwrap_or(u32::MAX),
            tokenized_by: prompt.by_bridge.then_some("bridge"),
            handoff,
            whole: said.whole.map(Whole::as_str),
            us: self.timings,
            trace: (said.explain == ExplainLevel::Trace)
                .then(|| Trace::of(&prompt.prepared.chain, prompt.block_size, millis(self.mark))),
            ..Explanation::of(choice, &asked.pool.targets)
        };
        let json = explanation.to_json();
        host.set_filter_state(names::DECISION_STATE, json.as_bytes());
        (self.config.explain_header || said.explain == ExplainLevel::Header).then_some(json)
    }
}

pub(super) fn predicted(asked: &Asked, prompt: &Prompt, choice: &Choice) -> Option<Predicted> {
    let block = prompt.block_size.tokens();
    let tokens = choice.overlap.total().saturating_mul(block);
    let whole = tokens == prompt.prepared.tokens;
    (choice.rung == Rung::Exact && prompt.exact && asked.single).then_some(Predicted { tokens, block, whole })
}

pub(super) fn count(vm: &Vm, host: &impl Host, prompt: &Prompt, choice: &Choice, predicted: Option<Predicted>) {
    let counters = &vm.counters;
    counters.count(host, Counter::Routed);
    counters.count(
        host,
        match choice.rung {
            Rung::Exact => Counter::RungExact,
            Rung::Predicted => Counter::RungPredicted,
            Rung::PrefixHash => Counter::RungPrefixHash,
            Rung::Load => Counter::RungLoad,
            Rung::Mode => Counter::RungMode,
        },
    );
    if let Some(Predicted { tokens, .. }) = predicted {
        counters.add(host, Counter::PromptTokens, prompt.prepared.tokens);
        counters.add(host, Counter::PredictedTokens, tokens);
    }
}
