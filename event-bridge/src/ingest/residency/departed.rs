//! Blocks that left a moment ago.

use kv_routing::block::SequenceHash;

/// Blocks remembered.
const MOST: usize = 4096;

/// The latest blocks that left, in a ring.
#[derive(Debug, Default)]
pub(super) struct Departed {
    blocks: Vec<SequenceHash>,
    next: usize,
}

impl Departed {
    pub(super) fn push(&mut self, block: SequenceHash) {
        match self.blocks.get_mut(self.next) {
            Some(oldest) => *oldest = block,
            None => self.blocks.push(block),
        }
        self.next = (self.next + 1) % MOST;
    }

    pub(super) fn contains(&self, block: SequenceHash) -> bool {
        self.blocks.contains(&block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut departed = Departed::default();
        let most = MOST as u64;
        for number in 0..most + 10 {
            departed.push(SequenceHash(number));
        }
        assert!(!departed.contains(SequenceHash(9)));
        assert!(departed.contains(SequenceHash(10)) && departed.contains(SequenceHash(most + 9)));
        assert_eq!(departed.blocks.len(), MOST);
    }
}
