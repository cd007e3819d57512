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
mod tests {
    use super::*;

    fn stores(first: u32, count: u32) -> StreamEvent {
        stores_of(8, first, count, false)
    }

    /// The same behind a block that nobody knows.
    fn orphaned(first: u32, count: u32) -> StreamEvent {
        stores_of(8, first, count, true)
    }

    /// A batch of vLLM's first layout that stores `count` blocks of `size` tokens, named from `first` on.
    fn stores_of(size: u32, first: u32, count: u32, orphaned: bool) -> StreamEvent {
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
        payload.extend_from_slice(if orphaned { &[0xce, 0xff, 0xff, 0xff, 0xff] } else { &[0xc0] });
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
        assert_eq!((pages, ingest.kept.pages), (600, 600));
        ingest.remove_target(SLOTS[0]);
        ingest.remove_target(SLOTS[1]);
        assert_eq!(ingest.kept.pages, 0);
    }

    #[test]
    fn whoever_holds_back_or_waits_for_most_gives_it_up_beyond_the_pools_bound() {
        let limits =
            IngestConfig { max_pool_held_bytes: 50_000, max_pool_orphan_bytes: 400_000, ..IngestConfig::default() };
        let mut ingest = Ingest::new(limits);
        SLOTS.iter().for_each(|slot| follow(&mut ingest, *slot));
        let now = Instant::now();
        let batch = |seq: u64, event| match event {
            StreamEvent::Live { payload, received, .. } => StreamEvent::Live { seq, payload, received },
            other => other,
        };
        // A gap: everything is held back while the engine is asked.
        let held = |ingest: &Ingest| SLOTS.map(|slot| ingest.report(slot).unwrap().held_batches);
        ingest.handle(SLOTS[0], batch(5, stores(0, 10)), now);
        for seq in 5.. {
            ingest.handle(SLOTS[1], batch(seq, stores(1000, 100)), now);
            if ingest.kept.held_bytes < 5000 {
                break;
            }
        }
        assert_eq!(held(&ingest), [1, 0]);
        assert!(SLOTS.iter().all(|slot| ingest.state(*slot).unwrap() == (SourceState::Warm, Reason::Synchronizing)));

        let mut ingest = Ingest::new(limits);
        for slot in SLOTS {
            ingest.add_target(slot, SourceSpec::default());
            ingest.handle(slot, StreamEvent::Connected, now);
        }
        let orphans = |ingest: &Ingest| SLOTS.map(|slot| ingest.report(slot).unwrap().orphans);
        ingest.handle(SLOTS[0], orphaned(0, 10), now);
        for first in 1..1000 {
            ingest.handle(SLOTS[1], batch(first, orphaned(first as u32 * 1000, 100)), now);
            if orphans(&ingest)[1] == 0 {
                break;
            }
        }
        assert_eq!(orphans(&ingest), [10, 0]);
        assert!(ingest.kept.orphan_bytes < 400_000);
    }

    #[test]
    fn blocks_that_an_engine_asleep_has_lost_leave_room_in_the_pool() {
        let mut ingest = Ingest::new(IngestConfig::default());
        follow(&mut ingest, SLOTS[0]);
        ingest.handle(SLOTS[0], stores(0, 100), Instant::now());
        assert_eq!(ingest.kept.pages, 100);
        ingest.hear(SLOTS[0], EngineSays { asleep: true, ..EngineSays::default() });
        assert_eq!(ingest.kept.pages, 0);
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
        ingest.handle(SLOTS[0], stores_of(16, 0, 10, false), now);
        assert_eq!(ingest.block_size().map(BlockSize::tokens), Some(16));
        let pages = SLOTS.map(|slot| ingest.report(slot).unwrap().pages);
        assert_eq!((pages, ingest.kept.pages), ([10, 0], 10));
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
