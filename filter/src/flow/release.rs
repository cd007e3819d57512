//! Book the load, name the targets, let the request go.

use std::rc::Rc;

use kv_routing::policy::document::ExplainLevel;
use kv_routing::policy::{Checkpoints, Choice, Explanation, Rung, Trace};
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::book::{Predicted, Routed, book, decision};
use super::decide::endpoint_list;
use super::policy::Said;
use super::prompt::{Asked, Prompt};
use super::usage::UsageTail;
use super::{Flow, Next, State};
use crate::counters::Counter;
use crate::host::Host;
use crate::names;
use crate::vm::Vm;

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
        let decision = decision(&asked, prompt, choice, target, said.imagined, now);
        let recent = vm.count_as_held(&asked.pool, &decision, now);
        vm.flush_row(host, now);
        self.name_targets(host, &asked, choice, target);
        let explanation = self.explain(host, &asked, prompt, choice, said, now);
        let predicted = predicted(&asked, prompt, choice);
        count(vm, host, prompt, choice, predicted);
        self.state = State::Routed(Box::new(Routed {
            booking,
            target: target.id,
            endpoint: target.endpoint.clone(),
            rank: target.rank,
            predicted,
            explanation,
            first_byte: false,
            failed: false,
            recent,
            decision: Some(decision),
            usage: Some(UsageTail::new(asked.stream)),
            pool: Rc::clone(&asked.pool),
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
    fn explain(
        &self,
        host: &impl Host,
        asked: &Asked,
        prompt: &Prompt,
        choice: &Choice,
        said: &Said,
        now: UnixMillis,
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
            us: self.timings,
            trace: (said.explain == ExplainLevel::Trace)
                .then(|| Trace::of(&prompt.prepared.chain, prompt.block_size, now)),
            ..Explanation::of(choice, &asked.pool.targets)
        };
        let json = explanation.to_json();
        host.set_filter_state(names::DECISION_STATE, json.as_bytes());
        (self.config.explain_header || said.explain == ExplainLevel::Header).then_some(json)
    }
}

fn predicted(asked: &Asked, prompt: &Prompt, choice: &Choice) -> Option<Predicted> {
    let block = prompt.block_size.tokens();
    let tokens = choice.overlap.total().saturating_mul(block);
    let whole = tokens == prompt.prepared.tokens;
    (choice.rung == Rung::Exact && prompt.exact && asked.single).then_some(Predicted { tokens, block, whole })
}

fn count(vm: &Vm, host: &impl Host, prompt: &Prompt, choice: &Choice, predicted: Option<Predicted>) {
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
