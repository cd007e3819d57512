//! Which pages each Envoy lacks.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use kv_routing::index::PrefixIndex;
use kv_routing::wire::Epoch;
use tokio::time::Instant;

use super::message::{PageBatch, PageOutcome};
use crate::publish::EnvoyIndex;

/// Pages one Envoy lacks, first changed first.
#[derive(Debug)]
struct PageQueue {
    waiting: VecDeque<u32>,
    /// By page: it is in `waiting`.
    queued: Vec<bool>,
    /// By page: the Envoy has acknowledged it at least once in this set.
    held: Vec<bool>,
    /// Pages not held.
    missing: usize,
    in_flight: Vec<u32>,
    oldest_event: Option<Instant>,
}

impl PageQueue {
    fn new(pages: u32) -> Self {
        let count = pages as usize;
        Self {
            waiting: (0..pages).collect(),
            queued: vec![true; count],
            held: vec![false; count],
            missing: count,
            in_flight: Vec::new(),
            oldest_event: None,
        }
    }

    fn mark(&mut self, page: u32) {
        if let Some(queued) = self.queued.get_mut(page as usize)
            && !std::mem::replace(queued, true)
        {
            self.waiting.push_back(page);
        }
    }

    fn is_waiting(&self, page: u32) -> bool {
        self.queued.get(page as usize).copied().unwrap_or(false)
    }

    fn take(&mut self) -> Option<u32> {
        let page = self.waiting.pop_front()?;
        if let Some(queued) = self.queued.get_mut(page as usize) {
            *queued = false;
        }
        self.in_flight.push(page);
        Some(page)
    }

    fn acknowledge(&mut self) {
        for page in self.in_flight.drain(..) {
            if let Some(held) = self.held.get_mut(page as usize)
                && !std::mem::replace(held, true)
            {
                self.missing -= 1;
            }
        }
    }

    fn lose(&mut self) {
        for page in std::mem::take(&mut self.in_flight) {
            self.mark(page);
        }
    }
}

/// Pages every Envoy lacks, and encodings that more than one of them waits for.
#[derive(Debug)]
pub(super) struct PageQueues {
    epoch: Epoch,
    page_bits: u8,
    queues: Vec<PageQueue>,
    encoded: HashMap<u32, Bytes>,
}

impl PageQueues {
    /// Every Envoy lacks every page.
    pub(super) fn new(index: &PrefixIndex, envoys: usize, epoch: Epoch) -> Self {
        let page_bits = index.page_bits();
        let queues = (0..envoys).map(|_| PageQueue::new(1 << page_bits)).collect();
        Self { epoch, page_bits, queues, encoded: HashMap::new() }
    }

    /// Takes over what changed in the index. A grown page set is lacking as a whole.
    fn absorb(&mut self, index: &mut PrefixIndex) {
        let dirty = index.take_dirty();
        if index.page_bits() != self.page_bits {
            self.page_bits = index.page_bits();
            self.encoded.clear();
            for queue in &mut self.queues {
                *queue = PageQueue { oldest_event: queue.oldest_event, ..PageQueue::new(1 << self.page_bits) };
            }
            return;
        }
        for page in dirty {
            self.encoded.remove(&page);
            self.queues.iter_mut().for_each(|queue| queue.mark(page));
        }
    }

    /// An event received at `at` has changed the index.
    pub(super) fn note_event(&mut self, at: Instant) {
        for queue in &mut self.queues {
            queue.oldest_event.get_or_insert(at);
        }
    }

    /// Settles the last batch of `envoy` and takes its next. `None` for an Envoy that is not configured.
    pub(super) fn next_batch(
        &mut self,
        index: &mut PrefixIndex,
        envoy: EnvoyIndex,
        previous: PageOutcome,
        max_bytes: usize,
    ) -> Option<PageBatch> {
        // Always first: page numbers mean something only together with the page set they belong to.
        self.absorb(index);
        let queue = self.queues.get_mut(envoy.0)?;
        match previous {
            PageOutcome::Acknowledged => queue.acknowledge(),
            PageOutcome::Lost => queue.lose(),
            PageOutcome::Wiped => *queue = PageQueue::new(1 << self.page_bits),
        }
        let oldest_event = queue.oldest_event.take();
        let (mut pages, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes {
            let Some(page) = self.queues.get_mut(envoy.0).and_then(PageQueue::take) else { break };
            let encoded = self.encode(index, page);
            bytes += encoded.len();
            pages.push((page, encoded));
        }
        let queue = self.queues.get(envoy.0)?;
        let more = !queue.waiting.is_empty();
        Some(PageBatch { page_bits: self.page_bits, pages, more, complete: queue.missing == 0, oldest_event })
    }

    /// Encodes a page, or reuses the encoding made for another Envoy; keeps it while one more waits for it.
    fn encode(&mut self, index: &PrefixIndex, page: u32) -> Bytes {
        let wanted = self.queues.iter().any(|queue| queue.is_waiting(page));
        if let Some(bytes) = self.encoded.remove(&page) {
            if wanted {
                self.encoded.insert(page, bytes.clone());
            }
            return bytes;
        }
        let bytes = Bytes::from(index.encode_page(page, self.epoch));
        if wanted {
            self.encoded.insert(page, bytes.clone());
        }
        bytes
    }
}
