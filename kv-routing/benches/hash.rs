//! Hashing prompts of common lengths, all at once.
#![allow(missing_docs, reason = "criterion's macros make public items without any")]

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::hint::black_box;
    use std::time::Duration;

    use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
    use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};

    fn hash(c: &mut Criterion) {
        let mut group = c.benchmark_group("hash");
        let Some(block_size) = BlockSize::new(16) else { return };
        for thousand in [8, 32, 128] {
            let tokens: Vec<TokenId> = (0..thousand * 1024_u32).map(|at| TokenId(at * 2_654_435 % 150_000)).collect();
            group.throughput(Throughput::Elements(tokens.len() as u64));
            group.bench_with_input(BenchmarkId::new("tokens", format!("{thousand}K")), &tokens, |b, tokens| {
                b.iter(|| chain(black_box(tokens), block_size, HashSeed::default()));
            });
        }
    }

    criterion_group! {
        name = benches;
        config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
        targets = hash
    }
}

#[cfg(not(target_family = "wasm"))]
criterion::criterion_main!(native::benches);

#[cfg(target_family = "wasm")]
fn main() {}
