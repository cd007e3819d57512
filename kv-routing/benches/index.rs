//! The index: applying stores and removals, encoding pages, looking prompts up.
#![allow(missing_docs, reason = "criterion's macros make public items without any")]
#![allow(clippy::indexing_slicing, reason = "a benchmark that is wrong about its own tables should stop")]

#[cfg(not(target_family = "wasm"))]
mod fleet;

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::hint::black_box;
    use std::time::Duration;

    use criterion::{BatchSize, Criterion, Throughput, criterion_group};
    use kv_routing::index::{IndexLimits, PageSource, PrefixIndex, lookup};
    use kv_routing::target::{Slot, Tier};
    use kv_routing::wire::Epoch;

    use super::fleet::{Fleet, conversation};

    const EPOCH: Epoch = Epoch(1);
    /// Blocks of one store event: a prefill chunk of 1024 tokens.
    const CHUNK: usize = 64;

    /// Stores into an index that is at its bound already, so that as many blocks leave as come.
    fn apply_at_bound(c: &mut Criterion) {
        let mut group = c.benchmark_group("index_apply");
        let max_blocks = 1 << 19;
        let mut index = PrefixIndex::new(IndexLimits { max_blocks });
        let mut name = 0;
        let mut store = |index: &mut PrefixIndex| {
            name += 1;
            index.store(Slot((name % 200) as u16), Tier::Device, None, &conversation(name, CHUNK))
        };
        while index.stats().evicted_blocks < max_blocks {
            store(&mut index);
        }
        group.throughput(Throughput::Elements(CHUNK as u64));
        group.bench_function("store_at_bound", |b| b.iter(|| store(&mut index)));
    }

    /// A fleet whose caches are full: as many blocks leave as come.
    fn apply_steady(c: &mut Criterion) {
        let mut group = c.benchmark_group("index_apply");
        for (label, engines, capacity) in [("64_targets_1M", 64, 16 << 10), ("200_targets_4M", 200, 20_000)] {
            let mut index = PrefixIndex::new(IndexLimits { max_blocks: 1 << 24 });
            let mut fleet = Fleet::new(engines, capacity);
            fleet.fill(&mut index);
            // One more round, so that the number of blocks per step is known.
            let (steps, before) = (20_000, fleet.events);
            (0..steps).for_each(|_| fleet.step(&mut index));
            group.throughput(Throughput::Elements((fleet.events - before) / steps));
            group.bench_function(format!("store_and_remove_{label}"), |b| b.iter(|| fleet.step(&mut index)));
        }
        group.finish();
    }

    fn store_and_remove_apart(c: &mut Criterion) {
        let mut group = c.benchmark_group("index_apply");
        let chains: Vec<_> = (0..2048).map(|name| conversation(name, CHUNK)).collect();
        let empty = || PrefixIndex::new(IndexLimits { max_blocks: 1 << 24 });
        let fill = |index: &mut PrefixIndex| {
            for (at, chain) in chains.iter().enumerate() {
                index.store(Slot((at % 200) as u16), Tier::Device, None, chain);
            }
        };
        group.throughput(Throughput::Elements((chains.len() * CHUNK) as u64));
        group.bench_function("store_64_blocks_per_event", |b| {
            b.iter_batched_ref(empty, fill, BatchSize::LargeInput);
        });
        group.bench_function("store_1_block_per_event", |b| {
            b.iter_batched_ref(
                empty,
                |index| {
                    for (at, chain) in chains.iter().enumerate() {
                        let mut parent = None;
                        for block in chain {
                            index.store(Slot((at % 200) as u16), Tier::Device, parent, &[*block]);
                            parent = Some(*block);
                        }
                    }
                },
                BatchSize::LargeInput,
            );
        });
        group.bench_function("remove_1_block_per_event", |b| {
            b.iter_batched_ref(
                || {
                    let mut index = empty();
                    fill(&mut index);
                    index
                },
                |index| {
                    for (at, chain) in chains.iter().enumerate() {
                        for block in chain.iter().rev() {
                            black_box(index.remove(Slot((at % 200) as u16), Tier::Device, *block));
                        }
                    }
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }

    struct Pages(Vec<Vec<u8>>);

    impl PageSource for Pages {
        fn page(&mut self, page: u32) -> Option<Vec<u8>> {
            self.0.get(page as usize).cloned()
        }
    }

    fn encode_and_look_up(c: &mut Criterion) {
        let mut index = PrefixIndex::new(IndexLimits { max_blocks: 1 << 24 });
        Fleet::new(200, 20_000).fill(&mut index);
        // One long chain that every target holds some of.
        let long = conversation(u64::MAX, 8192);
        for slot in 0..200_u16 {
            index.store(Slot(slot), Tier::Device, None, &long[..8192 - usize::from(slot) * 40]);
        }
        let bits = index.page_bits();
        let mut pages = Pages((0..1 << bits).map(|page| index.encode_page(page, EPOCH)).collect());

        let mut group = c.benchmark_group("index_pages");
        let mut next = 0;
        group.bench_function("encode_page", |b| {
            b.iter(|| {
                next = (next + 1) % (1 << bits);
                index.encode_page(next, EPOCH)
            });
        });
        group.finish();

        let mut group = c.benchmark_group("lookup_200_targets");
        for blocks in [512, 2048, 8192] {
            let chain = &long[..blocks];
            group.bench_function(format!("pages_{blocks}_blocks"), |b| {
                b.iter(|| lookup(black_box(chain), bits, EPOCH, &mut pages));
            });
            group.bench_function(format!("native_{blocks}_blocks"), |b| b.iter(|| index.overlaps(black_box(chain))));
        }
        group.finish();
    }

    criterion_group! {
        name = benches;
        config = Criterion::default()
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2))
            .sample_size(20);
        targets = store_and_remove_apart, apply_at_bound, apply_steady, encode_and_look_up
    }
}

#[cfg(not(target_family = "wasm"))]
criterion::criterion_main!(native::benches);

#[cfg(target_family = "wasm")]
fn main() {}
