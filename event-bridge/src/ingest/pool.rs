//! All targets of a pool over one index.

use std::collections::BTreeMap;
use std::time::Instant;

use kv_routing::block::BlockSize;
use kv_routing::index::PrefixIndex;
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, SourceState};

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
    /// Engine pages of all targets.
    pages: usize,
}

impl Ingest {
    /// An empty pool.
    pub fn new(config: IngestConfig) -> Self {
        Self {
            index: PrefixIndex::with_secret(config.limits, config.secret),
            blocks: Blocks::new(config.expected_block_size, config.min_block_tokens),
            targets: BTreeMap::new(),
            vocabulary: None,
            pages: 0,
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
        let before = target.pages();
        let result = change(target, &mut context(&mut self.index, &mut self.blocks));
        self.pages = (self.pages + target.pages()).saturating_sub(before);
        if self.blocks.take_overturned() {
            self.recount(slot, before);
        }
        if self.pages > self.config.max_pool_pages {
            self.shed_pages();
        }
        self.note_losses();
        Some(result)
    }

    /// Forgets what was counted in blocks of a size that has turned out to be wrong. `slot` held `before` pages when its event
    /// said so; with none, all it holds is counted right.
    fn recount(&mut self, slot: Slot, before: usize) {
        for (other, target) in &mut self.targets {
            let counted_right = *other == slot && before == 0;
            if target.pages() > 0 && !counted_right {
                self.pages -= target.pages();
                target.recount(&mut context(&mut self.index, &mut self.blocks));
            }
        }
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(mut target) = self.targets.remove(&slot) {
            self.pages = self.pages.saturating_sub(target.pages());
            target.leave(&mut self.index);
        }
    }

    /// Clears the largest targets until the pool's bound is kept.
    fn shed_pages(&mut self) {
        self.pages = self.targets.values().map(Target::pages).sum();
        while self.pages > self.config.max_pool_pages {
            let Some(largest) = self.targets.values_mut().max_by_key(|target| target.pages()) else { return };
            self.pages -= largest.pages();
            largest.overflow(&mut context(&mut self.index, &mut self.blocks));
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

    /// What differs on a target whose token parity failed or is partial.
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
mod tests {
    use super::*;

    fn stores(first: u32, count: u32) -> StreamEvent {
        stores_of(8, first, count)
    }

    /// A batch of vLLM's first layout that stores `count` blocks of `size` tokens, named from `first` on.
    fn stores_of(size: u32, first: u32, count: u32) -> StreamEvent {
        let mut payload = vec![0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x96, 0xab];
        payload.extend_from_slice(b"BlockStored");
        let array = |payload: &mut Vec<u8>, numbers: std::ops::Range<u32>| {
            payload.push(0xdd);
            payload.extend_from_slice(&(numbers.len() as u32).to_be_bytes());
            for number in numbers {
                payload.push(0xce);
                payload.extend_from_slice(&number.to_be_bytes());
            }
        };
        array(&mut payload, first..first + count);
        payload.push(0xc0);
        array(&mut payload, first * size..(first + count) * size);
        payload.extend_from_slice(&[size as u8, 0xc0, 0]);
        StreamEvent::Live { seq: 0, payload: payload.into(), received: Instant::now() }
    }

    #[test]
    fn beyond_the_pools_bound_of_engine_blocks_the_largest_target_is_cleared() {
        let mut ingest = Ingest::new(IngestConfig { max_pool_pages: 1000, ..IngestConfig::default() });
        let slots = [Slot(0), Slot(1), Slot(2)];
        for slot in slots {
            ingest.add_target(slot, SourceSpec::default());
            ingest.set_parity(slot, Parity::Shown);
            ingest.handle(slot, StreamEvent::Connected, Instant::now());
        }
        let shown = |ingest: &Ingest| {
            slots.map(|slot| ingest.report(slot).map(|report| (report.pages, report.reason)).unwrap())
        };
        ingest.handle(slots[0], stores(0, 400), Instant::now());
        ingest.handle(slots[1], stores(1000, 500), Instant::now());
        ingest.handle(slots[2], stores(2000, 100), Instant::now());
        assert_eq!(shown(&ingest).map(|(pages, _)| pages), [400, 500, 100]);
        ingest.remove_target(slots[0]);
        ingest.add_target(slots[0], SourceSpec::default());
        ingest.set_parity(slots[0], Parity::Shown);
        ingest.handle(slots[0], StreamEvent::Connected, Instant::now());
        ingest.handle(slots[0], stores(0, 450), Instant::now());
        assert_eq!(shown(&ingest), [(450, Reason::InOrder), (0, Reason::Overflow), (100, Reason::InOrder)]);
    }

    /// A pool with a replayed target, and what a former bridge saved of it: `count` blocks of eight tokens.
    fn saved(count: u32) -> Saved {
        let mut ingest = Ingest::new(IngestConfig::default());
        follow(&mut ingest, SLOTS[0]);
        ingest.handle(SLOTS[0], stores(0, count), Instant::now());
        ingest.save(SLOTS[0], "name".into()).unwrap()
    }

    const SLOTS: [Slot; 2] = [Slot(0), Slot(1)];

    /// Connects a target whose engine has published nothing yet.
    fn follow(ingest: &mut Ingest, slot: Slot) {
        ingest.add_target(slot, SourceSpec { replay: true, ..SourceSpec::default() });
        ingest.set_parity(slot, Parity::Shown);
        let asked = ingest.handle(slot, StreamEvent::Connected, Instant::now());
        let [Action::Replay { id, from: 0 }] = asked[..] else { panic!("{asked:?}") };
        ingest.handle(slot, StreamEvent::ReplayEnd { id, complete: true }, Instant::now());
    }

    #[test]
    fn restored_blocks_count_towards_the_pools_bound() {
        let saved = saved(600);
        let mut ingest = Ingest::new(IngestConfig { max_pool_pages: 1000, ..IngestConfig::default() });
        for slot in SLOTS {
            ingest.add_target(slot, SourceSpec { replay: true, ..SourceSpec::default() });
            assert!(ingest.restore(slot, &saved));
        }
        let pages: u64 = SLOTS.iter().map(|slot| ingest.report(*slot).unwrap().pages).sum();
        assert_eq!((pages, ingest.pages), (600, 600));
        ingest.remove_target(SLOTS[0]);
        ingest.remove_target(SLOTS[1]);
        assert_eq!(ingest.pages, 0);
    }

    #[test]
    fn blocks_that_an_engine_asleep_has_lost_leave_room_in_the_pool() {
        let mut ingest = Ingest::new(IngestConfig::default());
        follow(&mut ingest, SLOTS[0]);
        ingest.handle(SLOTS[0], stores(0, 100), Instant::now());
        assert_eq!(ingest.pages, 100);
        ingest.hear(SLOTS[0], EngineSays { asleep: true, ..EngineSays::default() });
        assert_eq!(ingest.pages, 0);
    }

    #[test]
    fn what_was_restored_in_blocks_of_another_size_is_asked_for_again() {
        let saved = saved(50);
        let mut ingest = Ingest::new(IngestConfig::default());
        ingest.add_target(SLOTS[1], SourceSpec { replay: true, ..SourceSpec::default() });
        assert!(ingest.restore(SLOTS[1], &saved));
        ingest.set_parity(SLOTS[1], Parity::Shown);
        let now = Instant::now();
        let asked = ingest.handle(SLOTS[1], StreamEvent::Connected, now);
        let [Action::Replay { id, from: 0 }] = asked[..] else { panic!("{asked:?}") };
        let StreamEvent::Live { payload, .. } = stores(0, 50) else { panic!() };
        ingest.handle(SLOTS[1], StreamEvent::Replayed { id, seq: 0, payload }, now);
        ingest.handle(SLOTS[1], StreamEvent::ReplayEnd { id, complete: true }, now);
        assert_eq!(ingest.report(SLOTS[1]).unwrap().pages, 50);
        // Another engine's blocks show that the pool's have sixteen tokens.
        ingest.add_target(SLOTS[0], SourceSpec::default());
        ingest.handle(SLOTS[0], StreamEvent::Connected, now);
        ingest.handle(SLOTS[0], stores_of(16, 0, 10), now);
        assert_eq!(ingest.block_size().map(BlockSize::tokens), Some(16));
        let pages = SLOTS.map(|slot| ingest.report(slot).unwrap().pages);
        assert_eq!((pages, ingest.pages), ([10, 0], 10));
        assert_ne!(ingest.state(SLOTS[1]).unwrap().0, SourceState::Exact);
        assert!(matches!(ingest.tick(now)[..], [(slot, Action::Replay { from: 0, .. })] if slot == SLOTS[1]));
        assert_eq!(ingest.tick(now), []);
    }

    #[test]
    fn whoever_loses_blocks_to_the_bound_is_not_exact_any_more() {
        let limits = kv_routing::index::IndexLimits { max_blocks: 1024 };
        let mut ingest = Ingest::new(IngestConfig { limits, ..IngestConfig::default() });
        let slots = [Slot(0), Slot(1), Slot(2)];
        for slot in slots {
            ingest.add_target(slot, SourceSpec::default());
            ingest.set_parity(slot, Parity::Shown);
            ingest.handle(slot, StreamEvent::Connected, Instant::now());
        }
        let reasons = |ingest: &Ingest| slots.map(|slot| ingest.report(slot).unwrap().reason);
        ingest.handle(slots[0], stores(0, 400), Instant::now());
        ingest.handle(slots[1], stores(1000, 600), Instant::now());
        let report = ingest.report(slots[1]).unwrap();
        assert!(report.bytes >= 600 * 24 && report.pages == 600, "{report:?}");
        assert_eq!(reasons(&ingest), [Reason::InOrder, Reason::InOrder, Reason::NoEvents]);
        // It fits, and the least recently stored of the others goes.
        ingest.handle(slots[2], stores(2000, 200), Instant::now());
        assert_eq!(reasons(&ingest), [Reason::IndexBound, Reason::InOrder, Reason::InOrder]);
        assert_eq!(ingest.index().stats().blocks, 800);
    }
}
