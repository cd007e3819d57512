use std::collections::HashSet;

use super::*;
use crate::policy::{Rng, SplitMix64};

const A: TargetId = TargetId(1);
const B: TargetId = TargetId(2);

fn chain(family: u64, blocks: u64) -> Vec<SequenceHash> {
    (0..blocks).map(|block| SequenceHash((family << 32) | block)).collect()
}

fn request(target: TargetId, chain: &[SequenceHash]) -> BookingRequest {
    BookingRequest {
        target,
        blocks: u32::try_from(chain.len()).unwrap(),
        prefill_tokens: 100,
        checkpoints: Checkpoints::of(chain),
    }
}

#[test]
fn a_request_books_its_prefill_until_the_first_byte_and_the_rest_until_its_end() {
    let mut ledger = Ledger::default();
    let id = ledger.book(request(A, &chain(1, 20)));
    assert_eq!(
        ledger.booking(A),
        Booking { requests: 1, prefill_tokens: 100, decode_blocks: 20, failures: 0, peak_requests: 0 }
    );
    ledger.release_prefill(id);
    ledger.release_prefill(id);
    assert_eq!(
        ledger.booking(A),
        Booking { requests: 1, prefill_tokens: 0, decode_blocks: 20, failures: 0, peak_requests: 0 }
    );
    ledger.end(id, false);
    ledger.end(id, true);
    assert_eq!(ledger.booking(A), Booking::default());
    assert!(ledger.entries().is_empty());
    assert_eq!(ledger.requests(), 0);
}

#[test]
fn a_retried_request_moves_with_what_is_left_of_it() {
    let mut ledger = Ledger::default();
    let id = ledger.book(request(A, &chain(1, 20)));
    ledger.count_failure(A);
    ledger.move_to(id, B);
    assert_eq!(ledger.booking(A), Booking { failures: 1, ..Booking::default() });
    assert_eq!(
        ledger.booking(B),
        Booking { requests: 1, prefill_tokens: 100, decode_blocks: 20, failures: 0, peak_requests: 0 }
    );
    ledger.end(id, true);
    assert_eq!(ledger.booking(B), Booking { failures: 1, ..Booking::default() });
    ledger.retain(|target| target == B);
    assert_eq!(ledger.entries().len(), 1);
}

#[test]
fn shared_prefixes_count_once() {
    let mut ledger = Ledger::default();
    let trunk = chain(1, 64);
    let with_tail = |family| [trunk.clone(), chain(family, 16)].concat();
    let first = ledger.book(request(A, &with_tail(2)));
    assert_eq!(ledger.shared_blocks(A, &Checkpoints::of(&with_tail(3))), 64);
    assert_eq!(ledger.shared_blocks(B, &Checkpoints::of(&with_tail(3))), 0);
    let second = ledger.book(request(A, &with_tail(3)));
    assert_eq!(ledger.booking(A).decode_blocks, 64 + 16 + 16);
    ledger.end(first, false);
    assert_eq!(ledger.booking(A).decode_blocks, 64 + 16);
    ledger.end(second, false);
    assert_eq!(ledger.booking(A).decode_blocks, 0);
}

/// Whatever joins, moves and leaves in whatever order, decode blocks are the size of the union (of whole checkpoints).
#[test]
fn decode_blocks_are_the_union_of_active_prompts() {
    let mut rng = SplitMix64::new(3);
    let mut below = move |bound: u64| rng.next_u64() % bound;
    let mut ledger = Ledger::default();
    let mut active: Vec<(BookingId, TargetId, Vec<SequenceHash>)> = Vec::new();
    for _ in 0..3000 {
        match below(5) {
            0 | 1 => {
                // Chains of whole checkpoints out of a small tree, so that every depth of sharing occurs.
                let mut node = 0_u64;
                let chain: Vec<SequenceHash> = (0..8 * (1 + below(6)))
                    .map(|block| {
                        if block % 8 == 0 {
                            node = node * 3 + below(3) + 1;
                        }
                        SequenceHash(node * 100 + block)
                    })
                    .collect();
                let target = [A, B][below(2) as usize];
                active.push((ledger.book(request(target, &chain)), target, chain));
            }
            2 if !active.is_empty() => {
                let at = below(active.len() as u64) as usize;
                let to = [A, B][below(2) as usize];
                ledger.move_to(active[at].0, to);
                active[at].1 = to;
            }
            _ if !active.is_empty() => {
                let (id, ..) = active.swap_remove(below(active.len() as u64) as usize);
                ledger.end(id, false);
            }
            _ => {}
        }
        for target in [A, B] {
            let on_target = active.iter().filter(|(_, on, _)| *on == target);
            let union: HashSet<SequenceHash> = on_target.flat_map(|(.., chain)| chain.iter().copied()).collect();
            assert_eq!(ledger.booking(target).decode_blocks, union.len() as u64);
        }
        assert_eq!(ledger.requests(), active.len());
    }
}
