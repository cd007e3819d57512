//! The queue of free blocks: a doubly linked list over block ids, so that a block hit in the middle leaves in O(1).

use super::BlockId;

const NIL: u32 = u32::MAX;

/// Free blocks in eviction order: the front is handed out first.
#[derive(Debug)]
pub(super) struct FreeQueue {
    prev: Vec<u32>,
    next: Vec<u32>,
    head: u32,
    tail: u32,
    len: usize,
}

impl FreeQueue {
    /// A queue over ids below `capacity` that holds `first..capacity` in order.
    pub(super) fn filled(first: u32, capacity: u32) -> Self {
        let slots = capacity as usize;
        let mut queue = Self { prev: vec![NIL; slots], next: vec![NIL; slots], head: NIL, tail: NIL, len: 0 };
        (first..capacity).for_each(|id| queue.push_back(BlockId(id)));
        queue
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push_back(&mut self, block: BlockId) {
        let id = block.0;
        self.prev[id as usize] = self.tail;
        self.next[id as usize] = NIL;
        match self.tail {
            NIL => self.head = id,
            tail => self.next[tail as usize] = id,
        }
        self.tail = id;
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, block: BlockId) {
        let id = block.0;
        self.next[id as usize] = self.head;
        self.prev[id as usize] = NIL;
        match self.head {
            NIL => self.tail = id,
            head => self.prev[head as usize] = id,
        }
        self.head = id;
        self.len += 1;
    }

    pub(super) fn pop_front(&mut self) -> Option<BlockId> {
        let head = self.head;
        if head == NIL {
            return None;
        }
        self.remove(BlockId(head));
        Some(BlockId(head))
    }

    /// Takes `block` out. It must be in the queue.
    pub(super) fn remove(&mut self, block: BlockId) {
        let (prev, next) = (self.prev[block.0 as usize], self.next[block.0 as usize]);
        match prev {
            NIL => self.head = next,
            prev => self.next[prev as usize] = next,
        }
        match next {
            NIL => self.tail = prev,
            next => self.prev[next as usize] = prev,
        }
        self.len -= 1;
    }
}
