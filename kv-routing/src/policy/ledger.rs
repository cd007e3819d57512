//! What one VM has routed and not yet seen the end of.
//!
//! An engine stores a prefix that several running requests share only once, so a target's decode blocks are the size of
//! the union of its active prompts. Chained hashes make that cheap: the blocks two prompts share are a common prefix, and
//! a prompt joining or leaving changes the union by its blocks beyond the longest prefix it shares with any other one.
//! Only every eighth hash is kept (a checkpoint), so sharing is rounded down to eight blocks.

use std::collections::HashMap;
use std::rc::Rc;

use crate::block::SequenceHash;
use crate::target::TargetId;
use crate::wire::{Booking, LoadRowEntry};

/// Blocks from one checkpoint to the next.
pub const CHECKPOINT_BLOCKS: usize = 8;

/// Every eighth hash of a prompt's chain. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints(Rc<[SequenceHash]>);

impl Checkpoints {
    /// Checkpoints of `chain`.
    pub fn of(chain: &[SequenceHash]) -> Self {
        Self(chain.iter().skip(CHECKPOINT_BLOCKS - 1).step_by(CHECKPOINT_BLOCKS).copied().collect())
    }

    /// Leading blocks both prompts have, rounded down to whole checkpoints.
    fn shared_blocks(&self, other: &Self) -> u32 {
        let agrees = |at: usize| match (self.0.get(at), other.0.get(at)) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => false,
        };
        let (mut agreeing, mut end) = (0, self.0.len().min(other.0.len()));
        while agreeing < end {
            let middle = agreeing + (end - agreeing) / 2;
            if agrees(middle) {
                agreeing = middle + 1;
            } else {
                end = middle;
            }
        }
        u32::try_from(agreeing * CHECKPOINT_BLOCKS).unwrap_or(u32::MAX)
    }
}

/// Names a booking until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BookingId(u64);

/// The load one routed request puts on its target.
#[derive(Clone, Debug)]
pub struct BookingRequest {
    /// Where it goes.
    pub target: TargetId,
    /// Blocks of its prompt, an unfinished last one included.
    pub blocks: u32,
    /// Prompt tokens the target has to compute.
    pub prefill_tokens: u64,
    /// Of its chain.
    pub checkpoints: Checkpoints,
}

/// All bookings of one VM.
#[derive(Debug, Default)]
pub struct Ledger {
    next: u64,
    held_on: HashMap<BookingId, TargetId>,
    targets: HashMap<TargetId, OnTarget>,
}

#[derive(Debug, Default)]
struct OnTarget {
    sum: Booking,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    id: BookingId,
    blocks: u32,
    prefill_tokens: u64,
    checkpoints: Checkpoints,
}

impl OnTarget {
    fn shared_blocks(&self, checkpoints: &Checkpoints) -> u32 {
        self.held.iter().map(|held| held.checkpoints.shared_blocks(checkpoints)).max().unwrap_or(0)
    }

    fn add(&mut self, held: Held) {
        let own = held.blocks.saturating_sub(self.shared_blocks(&held.checkpoints));
        self.sum.requests = self.sum.requests.saturating_add(1);
        self.sum.prefill_tokens = self.sum.prefill_tokens.saturating_add(held.prefill_tokens);
        self.sum.decode_blocks = self.sum.decode_blocks.saturating_add(u64::from(own));
        self.held.push(held);
    }

    fn take(&mut self, id: BookingId) -> Option<Held> {
        let at = self.held.iter().position(|held| held.id == id)?;
        let held = self.held.swap_remove(at);
        let own = held.blocks.saturating_sub(self.shared_blocks(&held.checkpoints));
        self.sum.requests = self.sum.requests.saturating_sub(1);
        self.sum.prefill_tokens = self.sum.prefill_tokens.saturating_sub(held.prefill_tokens);
        self.sum.decode_blocks = self.sum.decode_blocks.saturating_sub(u64::from(own));
        Some(held)
    }
}

impl Ledger {
    /// Books a request at its dispatch.
    pub fn book(&mut self, request: BookingRequest) -> BookingId {
        let BookingRequest { target, blocks, prefill_tokens, checkpoints } = request;
        let id = BookingId(self.next);
        self.next = self.next.wrapping_add(1);
        self.held_on.insert(id, target);
        self.targets.entry(target).or_default().add(Held { id, blocks, prefill_tokens, checkpoints });
        id
    }

    /// The first byte of the response: its prefill is done. Repeating it changes nothing.
    pub fn release_prefill(&mut self, id: BookingId) {
        let Some(on) = self.held_on.get(&id).and_then(|target| self.targets.get_mut(target)) else {
            return;
        };
        if let Some(held) = on.held.iter_mut().find(|held| held.id == id) {
            on.sum.prefill_tokens = on.sum.prefill_tokens.saturating_sub(held.prefill_tokens);
            held.prefill_tokens = 0;
        }
    }

    /// The request was served by another target than it was booked on.
    pub fn move_to(&mut self, id: BookingId, target: TargetId) {
        let Some(booked_on) = self.held_on.get_mut(&id) else {
            return;
        };
        let from = std::mem::replace(booked_on, target);
        if let Some(held) = self.targets.get_mut(&from).and_then(|on| on.take(id)) {
            self.targets.entry(target).or_default().add(held);
        }
        self.drop_if_idle(from);
    }

    /// The request is over. Repeating it changes nothing.
    pub fn end(&mut self, id: BookingId, failed: bool) {
        let Some(target) = self.held_on.remove(&id) else {
            return;
        };
        if let Some(on) = self.targets.get_mut(&target) {
            let _ended: Option<Held> = on.take(id);
            on.sum.failures = on.sum.failures.saturating_add(u32::from(failed));
        }
        self.drop_if_idle(target);
    }

    /// Notes a failed attempt on a target that did not keep the request.
    pub fn count_failure(&mut self, target: TargetId) {
        let failures = &mut self.targets.entry(target).or_default().sum.failures;
        *failures = failures.saturating_add(1);
    }

    /// What is booked on `target`.
    pub fn booking(&self, target: TargetId) -> Booking {
        self.targets.get(&target).map(|on| on.sum).unwrap_or_default()
    }

    /// Leading blocks of a prompt that active requests on `target` use already.
    pub fn shared_blocks(&self, target: TargetId, checkpoints: &Checkpoints) -> u32 {
        self.targets.get(&target).map_or(0, |on| on.shared_blocks(checkpoints))
    }

    /// Requests in flight.
    pub fn requests(&self) -> usize {
        self.held_on.len()
    }

    /// Everything, for the VM's load row, in no order.
    pub fn entries(&self) -> Vec<LoadRowEntry> {
        let entry = |(target, on): (&TargetId, &OnTarget)| LoadRowEntry { target: *target, booking: on.sum };
        self.targets.iter().map(entry).collect()
    }

    /// Forgets failures of targets for which `known` is false; those with requests in flight stay.
    pub fn retain(&mut self, known: impl Fn(TargetId) -> bool) {
        self.targets.retain(|target, on| on.sum.requests > 0 || known(*target));
    }

    fn drop_if_idle(&mut self, target: TargetId) {
        if self.targets.get(&target).is_some_and(|on| on.sum == Booking::default()) {
            self.targets.remove(&target);
        }
    }
}

#[cfg(test)]
mod tests;
