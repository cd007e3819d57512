use std::collections::HashMap;

use bytes::Bytes;
use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, PageSource, PrefixIndex, lookup};
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::Epoch;
use tokio::time::Instant;

use super::message::PageOutcome::{Acknowledged, Lost, Wiped};
use super::pages::PageQueues;
use crate::publish::EnvoyIndex;

const EPOCH: Epoch = Epoch(9);
const A: EnvoyIndex = EnvoyIndex(0);
const B: EnvoyIndex = EnvoyIndex(1);

/// Shared data of an Envoy, as far as pages go.
#[derive(Default)]
struct Pages(HashMap<(u8, u32), Bytes>, u8);

impl PageSource for Pages {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        self.0.get(&(self.1, page)).map(|bytes| bytes.to_vec())
    }
}

fn index() -> PrefixIndex {
    PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 })
}

/// A chain of `length` blocks that shares nothing with other seeds' chains.
fn chain(seed: u64, length: u64) -> Vec<SequenceHash> {
    (0..length)
        .map(|at| SequenceHash((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32) ^ at))
        .collect()
}

/// Takes everything `envoy` lacks into `pages`, acknowledging each batch.
fn drain(queues: &mut PageQueues, index: &mut PrefixIndex, envoy: EnvoyIndex, pages: &mut Pages) -> usize {
    let mut count = 0;
    loop {
        let batch = queues.next_batch(index, envoy, Acknowledged, 4096).unwrap();
        pages.1 = batch.page_bits;
        count += batch.pages.len();
        if batch.pages.is_empty() {
            assert!(batch.complete && !batch.more);
            return count;
        }
        pages.0.extend(batch.pages.into_iter().map(|(page, bytes)| ((batch.page_bits, page), bytes)));
    }
}

#[test]
fn what_an_envoy_received_answers_like_the_index() {
    let (mut index, mut queues) = (index(), PageQueues::new(&index(), 2, EPOCH));
    let (mut a, mut b) = (Pages::default(), Pages::default());
    for seed in 0..400 {
        index.store(Slot((seed % 5) as u16), Tier::Device, None, &chain(seed, 40));
        if seed % 7 == 0 {
            drain(&mut queues, &mut index, A, &mut a);
        }
        if seed % 90 == 0 {
            drain(&mut queues, &mut index, B, &mut b);
        }
    }
    assert!(index.page_bits() > 0, "the page set has grown on the way");
    for (envoy, pages) in [(A, &mut a), (B, &mut b)] {
        drain(&mut queues, &mut index, envoy, pages);
        for seed in 0..400 {
            let chain = chain(seed, 40);
            let (found, stats) = lookup(&chain, index.page_bits(), EPOCH, pages);
            assert_eq!((found, stats.rejected_pages), (index.overlaps(&chain), 0));
        }
    }
}

#[test]
fn lost_pages_come_again_and_only_those() {
    let (mut index, mut queues) = (index(), PageQueues::new(&index(), 1, EPOCH));
    let mut pages = Pages::default();
    drain(&mut queues, &mut index, A, &mut pages);
    index.store(Slot(0), Tier::Device, None, &chain(1, 3));
    let first = queues.next_batch(&mut index, A, Acknowledged, 1 << 20).unwrap();
    assert_eq!(first.pages.len(), 1);
    let again = queues.next_batch(&mut index, A, Lost, 1 << 20).unwrap();
    assert_eq!(again.pages, first.pages);
    assert!(queues.next_batch(&mut index, A, Acknowledged, 1 << 20).unwrap().pages.is_empty());
}

#[test]
fn a_wiped_envoy_lacks_everything_and_the_other_one_nothing() {
    let (mut index, mut queues) = (index(), PageQueues::new(&index(), 2, EPOCH));
    let (mut a, mut b) = (Pages::default(), Pages::default());
    for seed in 0..200 {
        index.store(Slot(0), Tier::Device, None, &chain(seed, 30));
    }
    drain(&mut queues, &mut index, A, &mut a);
    drain(&mut queues, &mut index, B, &mut b);
    let batch = queues.next_batch(&mut index, A, Wiped, 1).unwrap();
    assert!(!batch.complete && batch.more);
    let all = 1 << index.page_bits();
    assert_eq!(drain(&mut queues, &mut index, A, &mut a) + batch.pages.len(), all);
    assert_eq!(drain(&mut queues, &mut index, B, &mut b), 0);
}

#[test]
fn an_encoding_made_for_one_envoy_serves_the_other_unless_the_page_changed() {
    let (mut index, mut queues) = (index(), PageQueues::new(&index(), 2, EPOCH));
    let (mut a, mut b) = (Pages::default(), Pages::default());
    drain(&mut queues, &mut index, A, &mut a);
    drain(&mut queues, &mut index, B, &mut b);
    index.store(Slot(0), Tier::Device, None, &chain(1, 3));
    let one = queues.next_batch(&mut index, A, Acknowledged, 1 << 20).unwrap().pages;
    let other = queues.next_batch(&mut index, B, Acknowledged, 1 << 20).unwrap().pages;
    assert_eq!(one, other);
    assert_eq!(one[0].1.as_ptr(), other[0].1.as_ptr(), "encoded once");
    index.store(Slot(1), Tier::Device, None, &chain(1, 2));
    queues.next_batch(&mut index, A, Acknowledged, 1 << 20).unwrap();
    index.store(Slot(2), Tier::Device, None, &chain(1, 1));
    let changed = queues.next_batch(&mut index, B, Acknowledged, 1 << 20).unwrap();
    b.0.extend(changed.pages.into_iter().map(|(page, bytes)| ((changed.page_bits, page), bytes)));
    assert_eq!(lookup(&chain(1, 3), index.page_bits(), EPOCH, &mut b).0, index.overlaps(&chain(1, 3)));
}

#[test]
fn the_oldest_event_is_told_once_per_envoy() {
    let (mut index, mut queues) = (index(), PageQueues::new(&index(), 2, EPOCH));
    let (first, second) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(1));
    queues.note_event(first);
    queues.note_event(second);
    for envoy in [A, B] {
        assert_eq!(queues.next_batch(&mut index, envoy, Acknowledged, 1 << 20).unwrap().oldest_event, Some(first));
        assert_eq!(queues.next_batch(&mut index, envoy, Acknowledged, 1 << 20).unwrap().oldest_event, None);
    }
    assert!(queues.next_batch(&mut index, EnvoyIndex(2), Acknowledged, 1).is_none());
}
