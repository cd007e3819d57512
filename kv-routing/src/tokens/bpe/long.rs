//! Merging of long pieces by a queue, in as many steps as the caller likes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::block::TokenId;
use crate::tokens::budget::Budget;
use crate::tokens::table::{Merge, Tables};

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A symbol with its neighbours and the merge with the right one.
#[derive(Clone, Copy, Debug)]
struct Node {
    token: TokenId,
    left: u32,
    right: u32,
    merge: Merge,
}

/// A piece being merged.
#[derive(Debug, Default)]
pub(crate) struct LongMerge {
    nodes: Vec<Node>,
    /// Nodes whose merge with the right neighbour has been looked up; all of them before the first merge.
    queued: usize,
    /// Rank in the upper half, position in the lower.
    queue: BinaryHeap<Reverse<u64>>,
}

impl LongMerge {
    /// Begins with the symbols of a piece.
    pub(crate) fn new(symbols: &[TokenId]) -> Self {
        let count = u32::try_from(symbols.len()).unwrap_or(NONE - 1);
        let node = |(at, token): (u32, &TokenId)| Node {
            token: *token,
            left: at.checked_sub(1).unwrap_or(NONE),
            right: if at + 1 < count { at + 1 } else { NONE },
            merge: Merge::NONE,
        };
        let nodes = (0..count).zip(symbols).map(node).collect();
        Self { nodes, queued: 0, queue: BinaryHeap::with_capacity(symbols.len()) }
    }

    /// Works until the piece is done, then true, or the budget is spent.
    pub(crate) fn advance(&mut self, tables: &Tables<'_>, budget: &mut Budget) -> bool {
        while self.step(tables) {
            budget.merge_step();
            if budget.spent() {
                return false;
            }
        }
        true
    }

    /// Works until the piece is done.
    pub(crate) fn finish(&mut self, tables: &Tables<'_>) {
        while self.step(tables) {}
    }

    /// Queues one more pair, or does one merge; false when nothing is left to do.
    #[inline]
    fn step(&mut self, tables: &Tables<'_>) -> bool {
        if self.queued < self.nodes.len() {
            let at = self.queued;
            self.queued += 1;
            let right = self.nodes.get(self.queued).map(|node| node.token);
            if let (Some(node), Some(right)) = (self.nodes.get_mut(at), right) {
                node.merge = tables.merges.of(node.token, right);
                let merge = node.merge;
                self.enqueue(merge, at as u32);
            }
            return true;
        }
        match self.queue.pop() {
            Some(Reverse(top)) => {
                self.apply(tables, (top >> 32) as u32, top as u32);
                true
            }
            None => false,
        }
    }

    /// The tokens of a piece that is done, in order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        let mut at = if self.nodes.is_empty() { NONE } else { 0 };
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.right;
            Some(node.token)
        })
    }

    fn apply(&mut self, tables: &Tables<'_>, rank: u32, at: u32) -> Option<()> {
        let node = *self.nodes.get(at as usize)?;
        if node.merge.rank != rank {
            return None;
        }
        let gone = self.nodes.get_mut(node.right as usize)?;
        gone.merge = Merge::NONE;
        let (gone_right, token) = (gone.right, node.merge.id);
        if let Some(next) = self.nodes.get_mut(gone_right as usize) {
            next.left = at;
        }
        let next = self.nodes.get(gone_right as usize).map(|next| next.token);
        let merge = next.map_or(Merge::NONE, |next| tables.merges.of(token, next));
        let merged = self.nodes.get_mut(at as usize)?;
        *merged = Node { token, left: node.left, right: gone_right, merge };
        self.enqueue(merge, at);
        let before = self.nodes.get_mut(node.left as usize)?;
        before.merge = tables.merges.of(before.token, token);
        let merge = before.merge;
        self.enqueue(merge, node.left);
        Some(())
    }

    fn enqueue(&mut self, merge: Merge, at: u32) {
        if merge.rank != u32::MAX {
            self.queue.push(entry(merge, at));
        }
    }
}

fn entry(merge: Merge, at: u32) -> Reverse<u64> {
    Reverse(u64::from(merge.rank) << 32 | u64::from(at))
}
