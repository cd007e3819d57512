//! Prompts routed lately: they count as held by their targets for a time, or until events must have told of them. To look each one
//! up in the index for each request would cost more than the few blocks that come and go in between.
//!
//! The first of a burst of siblings decides for all of them, long before its target has stored anything. Where a target
//! publishes no events at all, nothing else is ever known of its cache.

use std::collections::VecDeque;

use crate::block::{SequenceHash, marked_overlap};
use crate::index::{Overlap, Overlaps};
use crate::target::Slot;
use crate::wire::{RecentPrompt, SourceState, TargetEntry, UnixMillis};

/// Names a prompt of a [`RecentPrompts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentId(u64);

/// A bounded number of prompts, in all and per target; the one routed longest ago goes first. A prompt that goes on from an
/// earlier one repeats its beginning, so what is in use stays.
#[derive(Debug)]
pub struct RecentPrompts {
    most: usize,
    most_of_target: usize,
    next: u64,
    /// Oldest first.
    list: VecDeque<(RecentId, RecentPrompt)>,
}

impl RecentPrompts {
    /// Room for `most` prompts, `most_of_target` of them on one target: a cache has room for only so many, and a busy target's do
    /// not push out those of a quiet one.
    pub fn new(most: usize, most_of_target: usize) -> Self {
        Self { most, most_of_target, next: 0, list: VecDeque::new() }
    }

    /// Adds a prompt, in place of the same one on the same target.
    pub fn add(&mut self, prompt: RecentPrompt, now: UnixMillis) -> RecentId {
        let is_same = |old: &RecentPrompt| old.target == prompt.target && old.marks.last() == prompt.marks.last();
        let (mut of_target, mut first_of_target) = (0, 0);
        let mut at = 0;
        self.list.retain(|(_, old)| {
            let stays = old.until > now && !is_same(old);
            if stays {
                if old.target == prompt.target {
                    of_target += 1;
                    if of_target == 1 {
                        first_of_target = at;
                    }
                }
                at += 1;
            }
            stays
        });
        if of_target >= self.most_of_target {
            self.list.remove(first_of_target);
        } else if self.list.len() >= self.most {
            self.list.pop_front();
        }
        let id = RecentId(self.next);
        self.next = self.next.wrapping_add(1);
        self.list.push_back((id, prompt));
        id
    }

    /// Takes a prompt back: its target did not compute it. One that has gone already, or was routed anew, stays as it is.
    pub fn retract(&mut self, id: RecentId) {
        self.list.retain(|(known, _)| *known != id);
    }

    /// Has a prompt count no longer than `until`: by then events tell what became of it.
    pub fn shorten(&mut self, id: RecentId, until: UnixMillis) {
        if let Some((_, prompt)) = self.list.iter_mut().find(|(known, _)| *known == id) {
            prompt.until = prompt.until.min(until);
        }
    }

    /// All prompts, the latest first.
    pub fn iter(&self) -> impl Iterator<Item = &RecentPrompt> {
        self.list.iter().rev().map(|(_, prompt)| prompt)
    }
}

/// Overlap of `chain` with the `recent` prompts on each of `targets`. What was sent to a target that does not compute what
/// is believed counts for nothing.
pub fn predicted<'a>(
    recent: impl Iterator<Item = &'a RecentPrompt>,
    chain: &[SequenceHash],
    targets: &[TargetEntry],
    now: UnixMillis,
) -> Overlaps {
    let mut found: Vec<(Slot, Overlap)> = Vec::new();
    for prompt in recent.filter(|prompt| prompt.until > now) {
        let device = marked_overlap(&prompt.marks, prompt.blocks, chain);
        if device == 0 {
            continue;
        }
        let target = targets.iter().find(|target| target.id == prompt.target);
        let Some(target) = target.filter(|target| target.source != SourceState::Mismatch) else { continue };
        let place = found.partition_point(|(slot, _)| *slot < target.slot);
        match found.get_mut(place) {
            Some((slot, overlap)) if *slot == target.slot => overlap.device = overlap.device.max(device),
            _ => found.insert(place, (target.slot, Overlap { device, ..Overlap::default() })),
        }
    }
    Overlaps(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::marks;
    use crate::policy::eligible::tests::target;

    fn chain(from: u64, blocks: u64) -> Vec<SequenceHash> {
        (from..from + blocks).map(SequenceHash).collect()
    }

    fn prompt(slot: u16, chain: &[SequenceHash], until: u64) -> RecentPrompt {
        RecentPrompt {
            target: target(slot).id,
            until: UnixMillis(until),
            blocks: chain.len() as u32,
            marks: marks(chain),
        }
    }

    fn found(recent: &RecentPrompts, chain: &[SequenceHash], now: u64) -> Vec<(u16, u32)> {
        let targets = [target(1), target(2), target(3)];
        let overlaps = predicted(recent.iter(), chain, &targets, UnixMillis(now));
        overlaps.0.into_iter().map(|(Slot(slot), overlap)| (slot, overlap.total())).collect()
    }

    #[test]
    fn siblings_and_longer_prompts_find_the_target_until_it_expires() {
        let mut recent = RecentPrompts::new(8, 8);
        let ten = chain(0, 10);
        recent.add(prompt(2, &ten, 100), UnixMillis(0));
        recent.add(prompt(1, &chain(0, 4), 50), UnixMillis(0));
        assert_eq!(found(&recent, &ten, 10), [(1, 4), (2, 10)]);
        assert_eq!(found(&recent, &chain(0, 30), 10), [(1, 4), (2, 10)]);
        assert_eq!(found(&recent, &chain(0, 30), 50), [(2, 10)]);
        assert!(found(&recent, &ten, 100).is_empty());
        assert!(found(&recent, &chain(5, 10), 10).is_empty());
    }

    #[test]
    fn what_failed_is_taken_back_and_a_sibling_on_the_same_target_stays() {
        let mut recent = RecentPrompts::new(8, 8);
        let ten = chain(0, 10);
        let first = recent.add(prompt(2, &ten, 100), UnixMillis(0));
        let second = recent.add(prompt(2, &ten, 110), UnixMillis(1));
        recent.retract(first);
        assert_eq!(found(&recent, &ten, 10), [(2, 10)]);
        recent.retract(second);
        assert!(found(&recent, &ten, 10).is_empty());
    }

    #[test]
    fn what_events_tell_of_counts_no_longer_and_is_never_prolonged() {
        let mut recent = RecentPrompts::new(8, 8);
        let ten = chain(0, 10);
        let id = recent.add(prompt(2, &ten, 100), UnixMillis(0));
        recent.shorten(id, UnixMillis(30));
        recent.shorten(id, UnixMillis(60));
        assert_eq!(found(&recent, &ten, 29), [(2, 10)]);
        assert!(found(&recent, &ten, 30).is_empty());
    }

    #[test]
    fn the_oldest_go_first_and_expired_ones_before_them() {
        let mut recent = RecentPrompts::new(2, 100);
        for (from, until) in [(0, 100), (1000, 20), (2000, 100)] {
            recent.add(prompt(1, &chain(from, 5), until), UnixMillis(30));
        }
        let holds = |from| !found(&recent, &chain(from, 5), 40).is_empty();
        assert!(holds(0) && !holds(1000) && holds(2000));
        recent.add(prompt(1, &chain(3000, 5), 100), UnixMillis(30));
        assert!(found(&recent, &chain(0, 5), 40).is_empty());
        assert_eq!(recent.iter().count(), 2);
    }

    #[test]
    fn a_busy_target_pushes_out_its_own_prompts_only() {
        let mut recent = RecentPrompts::new(100, 3);
        recent.add(prompt(1, &chain(0, 5), 100), UnixMillis(0));
        for from in 1..6 {
            recent.add(prompt(2, &chain(from * 1000, 5), 100), UnixMillis(0));
        }
        // Routed once more, so not the oldest any more.
        recent.add(prompt(2, &chain(3000, 5), 100), UnixMillis(0));
        recent.add(prompt(2, &chain(9000, 5), 100), UnixMillis(0));
        let holds = |from| !found(&recent, &chain(from, 5), 40).is_empty();
        assert_eq!([0, 1000, 2000, 3000, 4000, 5000, 9000].map(holds), [true, false, false, true, false, true, true]);
    }

    #[test]
    fn targets_that_compute_something_else_are_left_out() {
        let mut recent = RecentPrompts::new(2, 2);
        recent.add(prompt(1, &chain(0, 5), 100), UnixMillis(0));
        let mismatched = TargetEntry { source: SourceState::Mismatch, ..target(1) };
        assert_eq!(predicted(recent.iter(), &chain(0, 5), &[mismatched], UnixMillis(1)), Overlaps::default());
    }
}
