//! All targets of a pool over one index.

use std::collections::BTreeMap;
use std::time::Instant;

use kv_routing::block::BlockSize;
use kv_routing::index::PrefixIndex;
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, SourceState};

use super::bounds::{Bound, Kept, bounds};
use super::residency::{Blocks, Context};
use super::target::{Ask, Target, context};
use super::{EngineSays, Finding, IngestConfig, Parity, Reason, Saved, SourceReport, SourceSpec, Vocabulary};
use crate::stream::{ReplayId, StreamEvent};

/// What ingest wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the stream's engine for its batches from `from` on.
    Replay {
        /// Comes back in the answers.
        id: ReplayId,
        /// First sequence number wanted.
        from: u64,
    },
}

/// Residency and prefix index of one pool.
#[derive(Debug)]
pub struct Ingest {
    config: IngestConfig,
    index: PrefixIndex,
    blocks: Blocks,
    targets: BTreeMap<Slot, Target>,
    vocabulary: Option<Vocabulary>,
    /// Of all targets.
    kept: Kept,
}

impl Ingest {
    /// An empty pool.
    pub fn new(config: IngestConfig) -> Self {
        Self {
            index: PrefixIndex::with_secret(config.limits, config.secret),
            blocks: Blocks::new(config.expected_block_size, config.min_block_tokens),
            targets: BTreeMap::new(),
            vocabulary: None,
            kept: Kept::default(),
            config,
        }
    }

    /// Begins to follow a target. Its state is NONE until its stream connects. A slot that is followed already begins
    /// anew.
    pub fn add_target(&mut self, slot: Slot, spec: SourceSpec) {
        self.leave(slot);
        self.targets.insert(slot, Target::new(slot, spec, &self.config));
    }

    /// State of a target for a later bridge, under a name that will tell it from others. `None` when there is none worth keeping:
    /// nothing can be verified without a replay endpoint, and pages that are not blocks are followed anew.
    pub fn save(&mut self, slot: Slot, name: String) -> Option<Saved> {
        let target = self.targets.get(&slot)?;
        target.save(name, &mut context(&mut self.index, &mut self.blocks))
    }

    /// Gives a target that has not connected yet the state that a former bridge saved. It counts as stale until the stream is
    /// connected and as warm until the engine has shown the last batch that led to it; should it not, everything is forgotten.
    /// `false` when the state does not fit this pool.
    pub fn restore(&mut self, slot: Slot, saved: &Saved) -> bool {
        self.change(slot, |target, context| target.restore(saved, context)).unwrap_or(false)
    }

    /// Forgets a target and everything it holds. The last one takes the learned block size with it.
    pub fn remove_target(&mut self, slot: Slot) {
        self.leave(slot);
        if self.targets.is_empty() {
            self.blocks.forget();
        }
    }

    /// Takes one stream event of `slot`; events of unknown slots are ignored.
    pub fn handle(&mut self, slot: Slot, event: StreamEvent, now: Instant) -> Vec<Action> {
        actions(self.change(slot, |target, context| target.handle(event, now, context)))
    }

    /// What is due by time alone: audits of quiet streams, replays that never end. Call it about every second.
    pub fn tick(&mut self, now: Instant) -> Vec<(Slot, Action)> {
        let slots: Vec<Slot> = self.targets.keys().copied().collect();
        let due = slots.into_iter().flat_map(|slot| {
            let asks = self.change(slot, |target, context| target.tick(now, context));
            actions(asks).into_iter().map(move |action| (slot, action))
        });
        due.collect()
    }

    /// The engine of `slot` is another process than when it was last asked, at `before`. That its stream has noticed since then is
    /// known here.
    pub fn process_changed(&mut self, slot: Slot, before: Instant, now: Instant) -> Vec<Action> {
        actions(self.change(slot, |target, context| target.process_changed(before, now, context)))
    }

    /// Takes what an engine's metrics say of its cache.
    pub fn hear(&mut self, slot: Slot, said: EngineSays) {
        self.change(slot, |target, context| target.hear(said, context));
    }

    /// Changes what a target holds, and keeps the bounds of the pool.
    fn change<R>(&mut self, slot: Slot, change: impl FnOnce(&mut Target, &mut Context<'_>) -> R) -> Option<R> {
        let target = self.targets.get_mut(&slot)?;
        let before = target.kept();
        let result = change(target, &mut context(&mut self.index, &mut self.blocks));
        self.kept = self.kept.replace(before, target.kept());
        if self.blocks.take_overturned() {
            self.recount(slot, before.pages);
        }
        self.shed();
        self.note_losses();
        Some(result)
    }

    /// Forgets what was counted in blocks of a size that has turned out to be wrong. `slot` held `before` pages when its event
    /// said so; with none, all it holds is counted right.
    fn recount(&mut self, slot: Slot, before: usize) {
        for (other, target) in &mut self.targets {
            let counted_right = *other == slot && before == 0;
            let kept = target.kept();
            if kept.pages > 0 && !counted_right {
                target.recount(&mut context(&mut self.index, &mut self.blocks));
                self.kept = self.kept.replace(kept, target.kept());
            }
        }
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(mut target) = self.targets.remove(&slot) {
            self.kept = self.kept.replace(target.kept(), Kept::default());
            target.leave(&mut self.index);
        }
    }

    /// Lets the target that has most give up something until the pool's bounds are kept.
    fn shed(&mut self) {
        for Bound { of, most, give_up } in bounds(&self.config) {
            while of(&self.kept) > most {
                let Some(largest) = self.targets.values_mut().max_by_key(|target| of(&target.kept())) else { return };
                let before = largest.kept();
                give_up(largest, &mut context(&mut self.index, &mut self.blocks));
                let after = largest.kept();
                self.kept = self.kept.replace(before, after);
                if of(&after) >= of(&before) {
                    break;
                }
            }
        }
    }

    /// Targets whose blocks the index dropped for a bound are not followed exactly any more, whoever stored too much.
    fn note_losses(&mut self) {
        for slot in self.index.take_bereft() {
            if let Some(target) = self.targets.get_mut(&slot) {
                target.lose_to_bound();
            }
        }
    }

    /// Takes a decision about a prompt that `slot` answered, to look for it among what the target announces.
    pub fn answered(&mut self, slot: Slot, decision: &Decision, now: Instant) {
        if let Some(target) = self.targets.get_mut(&slot) {
            target.answered(decision, now);
        }
    }

    /// Judges the prompts that targets answered. Call it several times a second. Returns the targets that are thought of
    /// otherwise now.
    pub fn judge(&mut self, now: Instant) -> Vec<Slot> {
        let Self { index, blocks, vocabulary, targets, .. } = self;
        let judged = targets
            .iter_mut()
            .filter_map(|(slot, target)| target.judge(now, index, blocks, vocabulary.as_ref()).then_some(*slot));
        judged.collect()
    }

    /// Tells what the pool's own tokenizer says of ids, which makes guesses better.
    pub fn set_vocabulary(&mut self, vocabulary: Vocabulary) {
        self.vocabulary = Some(vocabulary);
    }

    /// What differs on a target whose token parity failed.
    pub fn finding(&self, slot: Slot) -> Option<&Finding> {
        self.targets.get(&slot)?.finding()
    }

    /// Sets the result of token parity checks of a target, as far as it is known without prompts.
    pub fn set_parity(&mut self, slot: Slot, parity: Parity) {
        if let Some(target) = self.targets.get_mut(&slot) {
            target.set_parity(parity);
        }
    }

    /// The pool's block size, learned from events; `None` until the first usable one.
    pub fn block_size(&self) -> Option<BlockSize> {
        self.blocks.size()
    }

    /// Configured and learned block size, when they disagree. The learned one counts.
    pub fn block_size_conflict(&self) -> Option<(BlockSize, BlockSize)> {
        let (expected, learned) = (self.config.expected_block_size?, self.blocks.size()?);
        (expected != learned).then_some((expected, learned))
    }

    /// State of a target, and why; `None` for an unknown slot.
    pub fn state(&self, slot: Slot) -> Option<(SourceState, Reason)> {
        self.targets.get(&slot).map(Target::state)
    }

    /// State and counters of a target; `None` for an unknown slot.
    pub fn report(&self, slot: Slot) -> Option<SourceReport> {
        self.targets.get(&slot).map(Target::report)
    }

    /// The index.
    pub fn index(&self) -> &PrefixIndex {
        &self.index
    }

    /// The index, for taking dirty pages.
    pub fn index_mut(&mut self) -> &mut PrefixIndex {
        &mut self.index
    }
}

/// What a target asks for, as what is to be done.
fn actions(asks: Option<Vec<Ask>>) -> Vec<Action> {
    asks.into_iter().flatten().map(|(id, from)| Action::Replay { id, from }).collect()
}

#[cfg(test)]
mod tests;
