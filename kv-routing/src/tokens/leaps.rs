//! One prompt's way along the landings of [`LeapCache`]: first over those that are known, then setting new ones.

use super::cache::{Checkpoint, LEAP, Landing, LeapCache, MARGIN, PrefixCache, PrefixKey};
use crate::block::ChainHasher;

/// Landings lie in the last so many bytes of their key's text: more than any group of items has, as late as that allows.
const LATEST: usize = 3 << 10;

/// Where a leap has come to: offset, key of the group that ends there, and whether a stretch goes on.
pub(crate) type Landed = (usize, PrefixKey, bool);

/// State of the way. Every landing holds what was added since the one before, so one that is missing ends it.
#[derive(Debug)]
pub(crate) struct Leaps {
    on: bool,
    /// Bytes that `key` stands for.
    end: usize,
    key: PrefixKey,
    /// Key of the bytes up to `end` + [`LEAP`], once it was needed.
    ahead: Option<PrefixKey>,
    /// Blocks at the last landing.
    blocks: usize,
}

impl Leaps {
    /// At the beginning of a prompt; `on`: its items can be told from its text alone.
    pub(crate) fn new(root: PrefixKey, on: bool) -> Self {
        Self { on, end: 0, key: root, ahead: None, blocks: 0 }
    }

    /// Sets no more landings for this prompt.
    pub(crate) fn stop(&mut self) {
        self.on = false;
    }

    /// Leaps as far as landings are known, and brings `hasher` there.
    pub(crate) fn leap(
        &mut self,
        text: &[u8],
        prefixes: &PrefixCache,
        leaps: &mut LeapCache,
        hasher: &mut ChainHasher,
    ) -> Option<Landed> {
        let mut landed = None;
        while self.on
            && let Some(key) = self.look_ahead(text, prefixes)
            && let Some(landing) = leaps.get(key)
        {
            landing.checkpoint.apply(hasher);
            landed = Some((landing.at, landing.key, landing.in_stretch));
            self.pass(key, hasher);
        }
        landed
    }

    /// A group ends at `at`: the place for a landing, if it is close enough to the end of the next key's text, yet settled.
    pub(crate) fn set(
        &mut self,
        text: &[u8],
        prefixes: &PrefixCache,
        leaps: &mut LeapCache,
        hasher: &ChainHasher,
        (at, group, in_stretch): Landed,
    ) {
        let end = self.end + LEAP;
        if !self.on || at < end - LATEST {
            return;
        }
        let Some(known) = text.get(..end).filter(|_| at + MARGIN <= end) else {
            self.on = false;
            return;
        };
        if Landing::settled(known, at)
            && let Some(key) = self.look_ahead(text, prefixes)
        {
            let checkpoint = Checkpoint::of(hasher, self.blocks, at);
            leaps.put(key, Landing { at, key: group, in_stretch, checkpoint });
            self.pass(key, hasher);
        }
    }

    fn look_ahead(&mut self, text: &[u8], prefixes: &PrefixCache) -> Option<PrefixKey> {
        if self.ahead.is_none() {
            self.ahead = text.get(self.end..self.end + LEAP).map(|more| prefixes.extend(self.key, more));
        }
        self.ahead
    }

    fn pass(&mut self, key: PrefixKey, hasher: &ChainHasher) {
        *self = Self { on: true, end: self.end + LEAP, key, ahead: None, blocks: hasher.chain().len() };
    }
}
