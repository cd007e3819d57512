//! Bounded-load prefix hashing: the rung for prompts and targets without any KV state.
//!
//! Rendezvous hashing sends equal prefixes to the same target on every Envoy, with nothing shared between them. A target
//! that already has more than its bounded share of the requests is passed over (Mirrokni, Thorup, Zadimoghaddam 2016),
//! so that one hot prefix spreads instead of piling up.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::rank::rank;
use crate::block::{BlockSize, SequenceHash};
use crate::target::TargetId;

/// Prompt tokens that make up the prefix.
pub const PREFIX_TOKENS: u32 = 256;

/// Bytes of text that make up the prefix when there are no tokens; about as much as [`PREFIX_TOKENS`].
const PREFIX_BYTES: usize = 1024;

/// Key of the prefix: the last hash within the first `tokens` tokens of a chain, or a hash of the text's beginning when there is no chain.
/// `None` when there is neither.
pub fn prefix_key(chain: &[SequenceHash], block_size: BlockSize, text: &[u8], tokens: u32) -> Option<u64> {
    let blocks = (tokens / block_size.tokens()).max(1) as usize;
    match chain.get(blocks - 1).or(chain.last()) {
        Some(hash) => Some(hash.0),
        None if text.is_empty() => None,
        None => Some(xxh3_64(text.get(..PREFIX_BYTES).unwrap_or(text))),
    }
}

/// Positions in `targets` (id and active requests) in the order they should be tried for `key`: by rendezvous hash, those within
/// their bounded share first. The share is `load_factor` (1 or more) times the mean, the new request counted.
pub fn bounded_order(key: u64, targets: &[(TargetId, f64)], load_factor: f64) -> Vec<u32> {
    let total: f64 = targets.iter().map(|(_, requests)| requests).sum();
    let share = (load_factor * (total + 1.0) / targets.len().max(1) as f64).ceil();
    rank(targets.iter().map(|(id, requests)| {
        let score = xxh3_64_with_seed(&id.0.to_le_bytes(), key);
        (u64::from(requests + 1.0 > share), u64::MAX - score)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(requests: &[f64]) -> Vec<(TargetId, f64)> {
        (0..).zip(requests).map(|(id, requests)| (TargetId(id), *requests)).collect()
    }

    #[test]
    fn equal_prefixes_go_together_and_different_ones_spread() {
        let idle = targets(&[0.0; 8]);
        let mut wins = [0_u32; 8];
        for key in 0..8000 {
            let order = bounded_order(key, &idle, 1.25);
            assert_eq!(order, bounded_order(key, &idle, 1.25));
            wins[order[0] as usize] += 1;
        }
        assert!(wins.iter().all(|wins| (850..1150).contains(wins)), "{wins:?}");
    }

    #[test]
    fn a_leaving_target_moves_only_its_own_prefixes() {
        let all = targets(&[0.0; 8]);
        for key in 0..1000 {
            let before = bounded_order(key, &all, 1.25)[0];
            let after = bounded_order(key, &all[..7], 1.25)[0];
            assert!(before == after || before == 7);
        }
    }

    #[test]
    fn a_hot_prefix_never_exceeds_its_bounded_share() {
        let mut load = targets(&[0.0; 8]);
        for sent in 1..=800_u32 {
            let to = bounded_order(42, &load, 1.25)[0] as usize;
            load[to].1 += 1.0;
            let share = (1.25 * f64::from(sent) / 8.0).ceil();
            assert!(load[to].1 <= share, "{} of {share}", load[to].1);
        }
        let used = load.iter().filter(|(_, requests)| *requests > 0.0).count();
        assert!(used >= 6, "{load:?}");
    }

    #[test]
    fn the_key_is_the_prefix_and_not_the_prompt() {
        let sixteen = BlockSize::new(16).unwrap();
        let chain: Vec<SequenceHash> = (1..=40).map(SequenceHash).collect();
        assert_eq!(prefix_key(&chain, sixteen, b"", PREFIX_TOKENS), Some(16));
        assert_eq!(prefix_key(&chain[..3], sixteen, b"", PREFIX_TOKENS), Some(3));
        assert_eq!(prefix_key(&chain, BlockSize::new(1024).unwrap(), b"", PREFIX_TOKENS), Some(1));
        assert_eq!(prefix_key(&[], sixteen, b"", PREFIX_TOKENS), None);
        let mut text = vec![b'x'; 2000];
        let key = prefix_key(&[], sixteen, &text, PREFIX_TOKENS);
        text[1500] = b'y';
        assert_eq!(prefix_key(&[], sixteen, &text, PREFIX_TOKENS), key);
        text[10] = b'y';
        assert_ne!(prefix_key(&[], sixteen, &text, PREFIX_TOKENS), key);
    }
}
