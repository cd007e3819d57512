//! Which run lies in which page, which pages have changed, and when there must be more of them.

use super::{ENTRY_BYTES, KEY_BYTES, MAX_PAGE_BITS, page_of};
use crate::block::SequenceHash;
use crate::index::run::{Run, RunId, Runs};

/// When a page is too large.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct PageTuning {
    /// Bits of the first page set.
    pub(in crate::index) initial_bits: u8,
    /// Bits of the largest page set, at most [`MAX_PAGE_BITS`].
    pub(in crate::index) max_bits: u8,
    /// A page larger than this doubles the number of pages, provided that the average page has at least an eighth of
    /// it: otherwise somebody picked the hashes, and more pages would not help.
    pub(in crate::index) split_bytes: u32,
    /// A page larger than this, when doubling does not apply, loses its least recently stored runs.
    pub(in crate::index) max_bytes: u32,
}

impl Default for PageTuning {
    /// A lookup copies a whole page out of shared data for one run, and a block more or less on one target makes a whole
    /// page go to every Envoy: both ask for small pages. A full run alone is 2 KiB.
    fn default() -> Self {
        Self { initial_bits: 4, max_bits: MAX_PAGE_BITS, split_bytes: 4 << 10, max_bytes: 32 << 10 }
    }
}

/// What to do about a page that grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum Pressure {
    /// Double the number of pages.
    Grow,
    /// Drop runs of the page.
    Shed(u32),
}

/// The page set in force.
#[derive(Debug)]
pub(in crate::index) struct PageSet {
    bits: u8,
    pages: Vec<Page>,
    dirty: Vec<u32>,
    bytes: u64,
    /// Pages that grew beyond a bound and were not looked at since.
    overfull: Vec<u32>,
    tuning: PageTuning,
}

#[derive(Debug, Default)]
struct Page {
    runs: Vec<RunId>,
    bytes: u32,
    dirty: bool,
}

/// Estimated bytes of a run in its page, holders counted as if most of them shared a group.
fn estimate(run: &Run) -> u32 {
    let holders = u32::try_from(run.holders.len()).unwrap_or(u32::MAX);
    (KEY_BYTES + ENTRY_BYTES) as u32 + 4 * u32::from(run.len()) + holders.saturating_mul(4)
}

impl PageSet {
    pub(in crate::index) fn new(tuning: PageTuning) -> Self {
        let mut set = Self {
            bits: tuning.initial_bits,
            pages: Vec::new(),
            dirty: Vec::new(),
            bytes: 0,
            overfull: Vec::new(),
            tuning,
        };
        set.reset();
        set
    }

    /// Empty pages, all dirty.
    fn reset(&mut self) {
        let count = 1_u32 << self.bits;
        self.pages = (0..count).map(|_| Page { dirty: true, ..Page::default() }).collect();
        self.dirty = (0..count).collect();
        self.bytes = 0;
        self.overfull.clear();
    }

    pub(in crate::index) fn bits(&self) -> u8 {
        self.bits
    }

    pub(in crate::index) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Estimated bytes of all pages.
    pub(in crate::index) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory of the set itself.
    pub(in crate::index) fn table_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>() + self.dirty.capacity() * size_of::<u32>()
    }

    /// Runs of a page, in no order.
    pub(in crate::index) fn runs(&self, page: u32) -> &[RunId] {
        self.pages.get(page as usize).map_or(&[], |page| &page.runs)
    }

    /// Takes in a run that just began.
    pub(in crate::index) fn insert(&mut self, id: RunId, key: SequenceHash) {
        if let Some(page) = self.pages.get_mut(page_of(key, self.bits) as usize) {
            page.runs.push(id);
        }
    }

    /// Notes that a run has a new size, and whether what it publishes has changed.
    pub(in crate::index) fn update(&mut self, run: &mut Run, published: bool) {
        let bytes = estimate(run);
        self.account(run, bytes, published);
    }

    /// Forgets a run that ended.
    pub(in crate::index) fn remove(&mut self, id: RunId, run: &mut Run) {
        self.account(run, 0, false);
        if let Some(page) = self.pages.get_mut(page_of(run.key, self.bits) as usize)
            && let Some(at) = page.runs.iter().position(|of| *of == id)
        {
            page.runs.swap_remove(at);
        }
    }

    fn account(&mut self, run: &mut Run, bytes: u32, published: bool) {
        let number = page_of(run.key, self.bits);
        let Some(page) = self.pages.get_mut(number as usize) else { return };
        page.bytes = page.bytes.saturating_sub(run.page_bytes).saturating_add(bytes);
        self.bytes = self.bytes.saturating_sub(run.page_bytes.into()).saturating_add(bytes.into());
        if page.bytes > self.tuning.split_bytes && bytes > run.page_bytes {
            self.overfull.push(number);
        }
        run.page_bytes = bytes;
        if published && !page.dirty {
            page.dirty = true;
            self.dirty.push(number);
        }
    }

    /// What the updates since the last call ask for, one thing at a time; `None` when nothing is left to do.
    pub(in crate::index) fn pressure(&mut self) -> Option<Pressure> {
        while let Some(number) = self.overfull.pop() {
            let Some(page) = self.pages.get(number as usize) else { continue };
            if page.bytes <= self.tuning.split_bytes || page.runs.len() < 2 {
                continue;
            }
            let average = self.bytes / self.pages.len().max(1) as u64;
            if self.bits < self.tuning.max_bits && average >= u64::from(self.tuning.split_bytes / 8) {
                return Some(Pressure::Grow);
            }
            if self.must_shed(number) {
                return Some(Pressure::Shed(number));
            }
        }
        None
    }

    /// Whether a page is still above the bound at which it sheds runs.
    pub(in crate::index) fn must_shed(&self, number: u32) -> bool {
        let over = |page: &Page| page.bytes > self.tuning.max_bytes && page.runs.len() > 1;
        self.pages.get(number as usize).is_some_and(over)
    }

    /// Doubles the number of pages. All of them are dirty.
    pub(in crate::index) fn grow(&mut self, runs: &Runs) {
        self.bits += 1;
        self.reset();
        for (id, run) in runs.iter() {
            self.insert(id, run.key);
            self.bytes += u64::from(run.page_bytes);
            if let Some(page) = self.pages.get_mut(page_of(run.key, self.bits) as usize) {
                page.bytes = page.bytes.saturating_add(run.page_bytes);
            }
        }
        self.overfull = (0..)
            .zip(&self.pages)
            .filter(|(_, page)| page.bytes > self.tuning.split_bytes)
            .map(|(number, _)| number)
            .collect();
    }

    /// Numbers of the pages changed since the last call, ascending.
    pub(in crate::index) fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        for number in &dirty {
            if let Some(page) = self.pages.get_mut(*number as usize) {
                page.dirty = false;
            }
        }
        dirty
    }
}
