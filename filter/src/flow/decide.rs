//! Look the chain up, price every target, pick.

use std::rc::Rc;

use kv_routing::index::{Overlaps, lookup};
use kv_routing::policy::{Checkpoints, Outcome, Phase, Plan, Situation, TargetLoad};
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::policy::Said;
use super::prefill::Handing;
use super::prompt::{Asked, Prompt};
use super::{Flow, Next, Unrouted, millis};
use crate::counters::Counter;
use crate::host::Host;
use crate::view::{Pool, SharedPages};
use crate::vm::Vm;

impl Flow {
    pub(super) fn decide(&mut self, vm: &mut Vm, host: &impl Host, mut asked: Asked, prompt: Prompt) -> Next {
        let now = millis(self.mark);
        // Free right after the body was read; after slices the pool may have changed.
        vm.refresh(host, now);
        vm.rows.sync(host, &vm.counters, now);
        asked.pool = latest(vm, &asked.pool);
        let overlaps = overlaps(vm, host, &asked.pool, &prompt);
        self.timings.lookup = self.lap(host);
        let checkpoints = Checkpoints::of(&prompt.prepared.chain);
        let (plan, mut said) = self.choose(vm, host, &asked, &prompt, &overlaps, &checkpoints, now);
        if let Some(why) = said.whole {
            vm.counters.count(host, why.into());
        }
        let choice = match plan.outcome {
            Outcome::Chosen(choice) => choice,
            Outcome::Pass(reason) => return self.unrouted(vm, host, reason.into()),
            Outcome::Refused(refusal) => return self.refuse(vm, host, &said, &refusal),
        };
        let Some(target) = asked.pool.targets.get(choice.target as usize).cloned() else {
            return self.unrouted(vm, host, Unrouted::Internal);
        };
        self.timings.pick = self.lap(host);
        if let (Some(decode), Some(rules)) = (plan.decode, said.handoff.take()) {
            let handing = Handing::new(asked, prompt, said, rules, checkpoints, choice, decode);
            return self.hand_over(vm, host, handing);
        }
        self.release_routed(vm, host, asked, &prompt, &choice, &target, &said, checkpoints, now)
    }

    #[allow(clippy::too_many_arguments)]
    fn choose(
        &self,
        vm: &mut Vm,
        host: &impl Host,
        asked: &Asked,
        prompt: &Prompt,
        overlaps: &Overlaps,
        checkpoints: &Checkpoints,
        now: UnixMillis,
    ) -> (Plan, Said) {
        let pool = &asked.pool;
        let loads = TargetLoad::of_all(&pool.targets, &vm.ledger, vm.rows.others(), &mut vm.peaks, checkpoints, now);
        let predicted = vm.predicted(pool, &prompt.prepared.chain, now);
        let silence = vm.view.silence(pool.manifest.stale_after_ms.into(), now);
        if silence.is_some() {
            vm.counters.count(host, Counter::RoutedStale);
        }
        let targets = vm.prefills.without_failed(&pool.targets, now);
        let situation = Situation {
            targets: &targets,
            loads: &loads,
            phase: Phase::Whole,
            prompt_tokens: prompt.prepared.tokens,
            block_size: prompt.block_size,
            overlaps,
            predicted: &predicted,
            prefix: prompt.prefix,
            has_chain: !prompt.prepared.chain.is_empty(),
            silence,
            stale_decay_ms: pool.manifest.stale_decay_ms,
            now,
        };
        asked.route(vm, host, &self.config.policy, prompt, &situation)
    }
}

/// The pool as it is now, unless it changed so much meanwhile that the chain means nothing in it.
fn latest(vm: &Vm, held: &Rc<Pool>) -> Rc<Pool> {
    match vm.view.pool(held.manifest.id) {
        Some(now)
            if now.manifest.name == held.manifest.name
                && now.manifest.block_size == held.manifest.block_size
                && now.manifest.tokenizer == held.manifest.tokenizer =>
        {
            Rc::clone(now)
        }
        _ => Rc::clone(held),
    }
}

fn overlaps(vm: &Vm, host: &impl Host, pool: &Pool, prompt: &Prompt) -> Overlaps {
    let page_bits = pool.manifest.page_bits;
    let mut pages = SharedPages { host, pool: pool.manifest.id, page_bits };
    let (overlaps, stats) = lookup(&prompt.prepared.chain, page_bits, pool.epoch, &mut pages);
    vm.counters.add(host, Counter::RejectedPages, stats.rejected_pages);
    overlaps
}

/// Name and rank of a target, for headers.
pub(super) fn endpoint_list(targets: &[TargetEntry], order: &[u32]) -> String {
    let mut list = String::new();
    for target in order.iter().filter_map(|position| targets.get(*position as usize)) {
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&target.endpoint);
    }
    list
}
