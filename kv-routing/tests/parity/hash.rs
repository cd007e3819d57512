//! Tokens to hashes.

use kv_routing::block::{BlockSize, ChainHasher, HashSeed, TokenId, chain};
use kv_routing::target::TargetId;

pub(crate) fn lines() -> Vec<String> {
    let tokens: Vec<TokenId> = (0..3000_u32).map(|at| TokenId(at.wrapping_mul(2_654_435_761) >> 8)).collect();
    let mut lines = Vec::new();
    for (adapter, salt) in [(None, None), (Some("sql-lora"), None), (None, Some("tenant-ä")), (Some("a"), Some("b"))] {
        let seed = HashSeed::new(adapter, salt);
        lines.push(format!("seed {adapter:?} {salt:?} {:016x}", seed.value()));
        for size in [1, 4, 16, 64, 1000] {
            let size = BlockSize::new(size).unwrap();
            let hashes = chain(&tokens, size, seed);
            let mut hasher = ChainHasher::new(size, seed);
            tokens.chunks(77).for_each(|piece| hasher.push_all(piece));
            assert_eq!(hasher.chain(), hashes);
            let shown = hashes.iter().step_by(hashes.len().div_ceil(5)).map(ToString::to_string);
            lines.push(format!(
                "{} per block, {} blocks: {}",
                size.tokens(),
                hashes.len(),
                shown.collect::<Vec<_>>().join(" ")
            ));
        }
    }
    for (endpoint, rank) in [("10.0.0.1:8000", None), ("10.0.0.1:8000", Some(3)), ("[::1]:80", Some(u32::MAX))] {
        lines.push(format!("target {endpoint} {rank:?}: {}", TargetId::of(endpoint, rank)));
    }
    lines
}
