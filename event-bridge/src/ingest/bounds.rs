//! Bounds that all targets of a pool share. Beyond one, the target that has most of it gives up what it can have again, or what
//! is worth least.

use super::IngestConfig;
use super::residency::Context;
use super::target::Target;

/// What a target, or all of them, keep in memory beside the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Engine pages, those without known parents included.
    pub(super) pages: usize,
    /// Bytes of live batches held back.
    pub(super) held_bytes: usize,
    /// Bytes of pages without known parents.
    pub(super) orphan_bytes: usize,
}

impl Kept {
    /// The sum, when `after` takes the place of `before` in it.
    pub(super) fn replace(self, before: Self, after: Self) -> Self {
        let replaced = |sum: usize, before: usize, after: usize| (sum + after).saturating_sub(before);
        Self {
            pages: replaced(self.pages, before.pages, after.pages),
            held_bytes: replaced(self.held_bytes, before.held_bytes, after.held_bytes),
            orphan_bytes: replaced(self.orphan_bytes, before.orphan_bytes, after.orphan_bytes),
        }
    }
}

/// Something that is bounded.
pub(super) struct Bound {
    pub(super) of: fn(&Kept) -> usize,
    pub(super) most: usize,
    pub(super) give_up: fn(&mut Target, &mut Context<'_>),
}

/// All bounds, in the order in which they are looked at: what may be had again first.
pub(super) fn bounds(config: &IngestConfig) -> [Bound; 3] {
    [
        Bound { of: |kept| kept.held_bytes, most: config.max_pool_held_bytes, give_up: |target, _| target.shed_held() },
        Bound {
            of: |kept| kept.orphan_bytes,
            most: config.max_pool_orphan_bytes,
            give_up: |target, _| target.shed_orphans(),
        },
        Bound { of: |kept| kept.pages, most: config.max_pool_pages, give_up: Target::overflow },
    ]
}
