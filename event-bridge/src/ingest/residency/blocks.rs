//! The pool's block size, learned from events.

use kv_routing::block::BlockSize;

/// What a pool counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    size: Option<BlockSize>,
    /// A former bridge says so, and no event has yet.
    presumed: bool,
    /// Events have said otherwise than was presumed, and nobody was told yet.
    overturned: bool,
    expected: Option<BlockSize>,
    min_tokens: u32,
}

/// Block of engines whose pages are too small to be blocks, unless the operator expects another.
const SMALL_PAGE_BLOCK: u32 = 16;

/// Block of TensorRT-LLM, whose events alone may leave it open, unless the operator expects another.
const USUAL_BUFFERED_BLOCK: u32 = 32;

impl Blocks {
    pub(crate) fn new(expected: Option<BlockSize>, min_tokens: u32) -> Self {
        Self { size: None, presumed: false, overturned: false, expected, min_tokens }
    }

    pub(crate) fn size(&self) -> Option<BlockSize> {
        self.size
    }

    /// Forgets the size, for a pool that has become empty.
    pub(crate) fn forget(&mut self) {
        self.size = None;
    }

    /// The pool's block size, which the first page decides: its own size, or a multiple of it when it is tiny.
    /// `None` for a page size no engine has.
    pub(crate) fn learn(&mut self, page_tokens: u32) -> Option<BlockSize> {
        if self.size.is_none() || self.presumed {
            let told = self.size_for(page_tokens);
            self.overturned |= self.presumed && told.is_some() && told != self.size;
            self.presumed &= told.is_none();
            self.size = told.or(self.size);
        }
        self.size
    }

    /// Whether a size that was presumed has turned out to be wrong since the last call: what was counted in it is void.
    pub(crate) fn take_overturned(&mut self) -> bool {
        std::mem::take(&mut self.overturned)
    }

    /// The pool's block size, which was `tokens` for a former bridge; events may still say otherwise.
    pub(crate) fn presume(&mut self, tokens: u32) -> Option<BlockSize> {
        if self.size.is_none() {
            self.size = BlockSize::new(tokens);
            self.presumed = true;
        }
        self.size
    }

    /// Whether a page that may be a partial one can be used: when the size is known, or it has just the size expected.
    pub(crate) fn knows_from_lone_page(&self, page_tokens: u32) -> bool {
        let expected = self.expected.map_or(USUAL_BUFFERED_BLOCK, BlockSize::tokens);
        self.size.is_some() || page_tokens == expected
    }

    fn size_for(&self, page: u32) -> Option<BlockSize> {
        let page_size = BlockSize::new(page)?;
        if page >= self.min_tokens {
            return Some(page_size);
        }
        let fits = |size: &BlockSize| size.tokens().is_multiple_of(page) && size.tokens() >= self.min_tokens;
        let wanted = self.expected.filter(fits);
        let usual = BlockSize::new(SMALL_PAGE_BLOCK).filter(fits);
        wanted.or(usual).or_else(|| BlockSize::new(page * self.min_tokens.div_ceil(page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(expected: Option<u32>, page: u32) -> Option<u32> {
        Blocks::new(expected.and_then(BlockSize::new), 8).learn(page).map(BlockSize::tokens)
    }

    #[test]
    fn events_decide_and_tiny_pages_are_put_together() {
        assert_eq!(learned(None, 32), Some(32));
        assert_eq!(learned(Some(16), 32), Some(32));
        assert_eq!(learned(None, 1), Some(16));
        assert_eq!(learned(Some(64), 1), Some(64));
        assert_eq!(learned(Some(4), 1), Some(16));
        assert_eq!(learned(Some(64), 3), Some(9));
        assert_eq!(learned(None, 0), None);
        assert_eq!(learned(None, BlockSize::MAX + 1), None);
    }

    #[test]
    fn what_a_former_bridge_knew_holds_until_a_page_says_otherwise() {
        let mut blocks = Blocks::new(None, 8);
        assert_eq!(blocks.presume(32).map(BlockSize::tokens), Some(32));
        assert_eq!(blocks.learn(0).map(BlockSize::tokens), Some(32));
        assert!(!blocks.take_overturned());
        assert_eq!(blocks.learn(64).map(BlockSize::tokens), Some(64));
        assert!(blocks.take_overturned() && !blocks.take_overturned());
        assert_eq!(blocks.presume(32).map(BlockSize::tokens), Some(64));
        assert_eq!(blocks.learn(16).map(BlockSize::tokens), Some(64));
    }

    #[test]
    fn the_first_page_decides_for_good() {
        let mut blocks = Blocks::new(None, 8);
        blocks.learn(32);
        assert_eq!(blocks.learn(64).map(BlockSize::tokens), Some(32));
    }
}
