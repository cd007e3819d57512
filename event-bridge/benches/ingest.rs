//! How many block events one core takes: decoding alone, and decoding and applying to the index, removals included.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark stops at the first surprise; criterion's macros have no docs"
)]

mod traffic;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use event_bridge::engine::decode_batch;
use event_bridge::ingest::{Ingest, IngestConfig, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::target::Slot;
use traffic::Engine;

/// Batches of an engine that holds `capacity` blocks, and the block events in them.
fn batches(requests: usize, capacity: usize) -> (Vec<Bytes>, u64) {
    let mut engine = Engine::new(1, capacity);
    let (batches, events): (Vec<Bytes>, Vec<u64>) = (0..requests).map(|_| engine.batch()).unzip();
    (batches, events.iter().sum())
}

fn decode(criterion: &mut Criterion) {
    let (batches, events) = batches(200, 6400);
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(events));
    group.bench_function("vllm_map", |bencher| {
        bencher.iter(|| {
            for batch in &batches {
                decode_batch(batch, |event| {
                    black_box(event.unwrap());
                })
                .unwrap();
            }
        });
    });
    group.finish();
}

/// Feeds one target's traffic to `targets` targets in turn; returns the time it took.
fn feed(batches: &[Bytes], targets: u16) -> Duration {
    let mut ingest = Ingest::new(IngestConfig::default());
    let begun = Instant::now();
    for slot in 0..targets {
        ingest.add_target(Slot(slot), SourceSpec::default());
        ingest.handle(Slot(slot), StreamEvent::Connected, begun);
    }
    for (seq, batch) in (0..).zip(batches) {
        for slot in 0..targets {
            let event = StreamEvent::Live { seq, payload: batch.clone(), received: begun };
            ingest.handle(Slot(slot), event, begun);
        }
    }
    let took = begun.elapsed();
    assert_eq!(ingest.report(Slot(0)).unwrap().unknown_removals, 0);
    black_box(ingest);
    took
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode_and_apply");
    group.sample_size(10);
    for (name, targets, requests, capacity) in [("1_target", 1, 2000, 20_000), ("16_targets", 16, 500, 8000)] {
        let (batches, events) = batches(requests, capacity);
        group.throughput(Throughput::Elements(events * u64::from(targets)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| feed(&batches, targets)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, decode, apply);
criterion_main!(benches);
