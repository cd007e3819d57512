//! The trap of a prefix that all traffic shares: whoever holds it first must not get everything.
//!
//! 64 targets with real index, ledger and decisions; engines prefill one prompt after another and decode all at once.

#![cfg(not(target_family = "wasm"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code: a panic is how a test fails, and figures are shown"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::index::{IndexLimits, Overlaps, PrefixIndex};
use kv_routing::policy::document::{Affinity, Policy};
use kv_routing::policy::{
    BookingId, BookingRequest, Checkpoints, Hints, Ledger, Outcome, Phase, Rng, Situation, SplitMix64, TargetLoad,
    route,
};
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::{TargetEntry, UnixMillis};

const TARGETS: u16 = 64;
const REQUESTS: usize = 6_400;
const SHARED_TOKENS: u32 = 2_048;
const OWN_TOKENS: u32 = 512;
const BLOCK: u32 = 16;
const PREFILL_US_PER_TOKEN: u64 = 50;
const DECODE_US: u64 = 2_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    FirstToken,
    Done,
}

/// What came of a run.
#[derive(Debug)]
struct Spread {
    /// Standard deviation of requests per target over their mean.
    variation: f64,
    /// Share of the prompt tokens that was cached where it was needed.
    hit_rate: f64,
}

struct Pool {
    targets: Vec<TargetEntry>,
    index: PrefixIndex,
    ledger: Ledger,
    chains: Vec<Vec<SequenceHash>>,
    /// Target and booking of each request so far.
    placed: Vec<(usize, BookingId)>,
    /// Until when each engine's prefill is occupied.
    busy_until: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event, usize)>>,
}

/// A prompt that begins like every other one.
fn prompt(number: usize) -> Vec<SequenceHash> {
    let shared = (0..SHARED_TOKENS).map(|at| TokenId(1_000 + at));
    let own = (0..OWN_TOKENS).map(|at| TokenId(10_000 + number as u32 * 7 + at * 3));
    chain(&shared.chain(own).collect::<Vec<_>>(), BlockSize::new(BLOCK).unwrap(), HashSeed::default())
}

impl Pool {
    fn new() -> Self {
        Self {
            targets: (0..TARGETS)
                .map(|slot| TargetEntry::new(Slot(slot), &format!("10.0.0.{slot}:80"), None))
                .collect(),
            index: PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 }),
            ledger: Ledger::default(),
            chains: (0..REQUESTS).map(prompt).collect(),
            placed: Vec::new(),
            busy_until: vec![0; TARGETS.into()],
            events: BinaryHeap::new(),
        }
    }

    fn run_until(&mut self, until: u64) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            let Reverse((_, event, request)) = self.events.pop().unwrap();
            let (target, booking) = self.placed[request];
            match event {
                Event::FirstToken => {
                    self.ledger.release_prefill(booking);
                    self.index.store(self.targets[target].slot, Tier::Device, None, &self.chains[request]);
                }
                Event::Done => self.ledger.end(booking, false),
            }
        }
    }

    /// Sends a request; the tokens its engine finds cached.
    fn send(&mut self, request: usize, now: u64, policy: &Policy, rng: &mut SplitMix64) -> u64 {
        let tokens = SHARED_TOKENS + OWN_TOKENS;
        let prompt = &self.chains[request];
        let checkpoints = Checkpoints::of(prompt);
        let overlaps = self.index.overlaps(prompt);
        let situation = Situation {
            targets: &self.targets,
            loads: &TargetLoad::of_own(&self.targets, &self.ledger, &checkpoints),
            phase: Phase::Whole,
            prompt_tokens: tokens,
            block_size: BlockSize::new(BLOCK).unwrap(),
            overlaps: &overlaps,
            predicted: &Overlaps::default(),
            prefix: None,
            has_chain: true,
            silence: None,
            stale_decay_ms: 0,
            now: UnixMillis(now / 1_000),
        };
        let Outcome::Chosen(choice) = route(&situation, policy, &Hints::default(), rng) else { unreachable!() };
        let at = choice.target as usize;
        let booking = self.ledger.book(BookingRequest {
            target: self.targets[at].id,
            blocks: tokens.div_ceil(BLOCK),
            prefill_tokens: choice.prefill_tokens,
            checkpoints,
        });
        self.placed.push((at, booking));
        let cached = u64::from(overlaps.get(self.targets[at].slot).device * BLOCK);
        let first = self.busy_until[at].max(now) + (u64::from(tokens) - cached) * PREFILL_US_PER_TOKEN;
        self.busy_until[at] = first;
        self.events.push(Reverse((first, Event::FirstToken, request)));
        self.events.push(Reverse((first + DECODE_US, Event::Done, request)));
        cached
    }
}

/// Traffic that keeps about `active` requests on each target.
fn spread(policy: &Policy, active: f64) -> Spread {
    let (mut pool, mut rng, mut now, mut cached) = (Pool::new(), SplitMix64::new(3), 0, 0);
    let mean_gap = DECODE_US as f64 / (active * f64::from(TARGETS));
    for request in 0..REQUESTS {
        now += (-(1.0 - rng.next_unit()).ln() * mean_gap) as u64;
        pool.run_until(now);
        cached += pool.send(request, now, policy, &mut rng);
    }
    let mut counts = vec![0.0; TARGETS.into()];
    pool.placed.iter().for_each(|(target, _)| counts[*target] += 1.0);
    let mean = REQUESTS as f64 / f64::from(TARGETS);
    let variance = counts.iter().map(|count: &f64| (count - mean).powi(2)).sum::<f64>() / f64::from(TARGETS);
    let tokens = REQUESTS as f64 * f64::from(SHARED_TOKENS + OWN_TOKENS);
    Spread { variation: variance.sqrt() / mean, hit_rate: cached as f64 / tokens }
}

/// Hit rate if everything went where the prefix is, whatever the load.
fn unconstrained() -> f64 {
    f64::from(SHARED_TOKENS) / f64::from(SHARED_TOKENS + OWN_TOKENS) * (REQUESTS - 1) as f64 / REQUESTS as f64
}

/// A policy that follows the cache only to targets within half a prompt of the least loaded one: not to one that is
/// serving a request while another is idle.
fn bounded() -> Policy {
    let prompt_blocks = f64::from((SHARED_TOKENS + OWN_TOKENS).div_ceil(BLOCK));
    let affinity = Affinity { max_excess_blocks: Some(prompt_blocks / 2.0), max_load_ratio: None };
    Policy { affinity, ..Policy::named("bounded") }
}

fn expect_spread(policy: &Policy, active: f64) {
    let found = spread(policy, active);
    println!("{} at {active} a target: {found:?}, unconstrained {:.3}", policy.name, unconstrained());
    assert!(found.variation < 0.25, "{} at {active}: {found:?}", policy.name);
    assert!(found.hit_rate > 0.9 * unconstrained(), "{} at {active}: {found:?}", policy.name);
}

/// With fewer requests than targets there is always an idle one that has the prefix, and nothing is gained by another.
#[test]
fn a_bound_on_affinity_spreads_a_prefix_that_all_share_from_one_request_per_target_on() {
    let policy = bounded();
    for active in [1.0, 1.5, 2.0, 4.0, 8.0] {
        expect_spread(&policy, active);
    }
}

/// The default is the published formula, which weighs an idle target that has to compute the prefix against a busy one that has it.
/// Where targets have work, it spreads; at little load the prefix is worth more, and few targets get everything.
#[test]
fn without_a_bound_a_shared_prefix_spreads_only_under_load() {
    let policy = Policy::named("default");
    expect_spread(&policy, 4.0);
    expect_spread(&policy, 8.0);
    let followed = spread(&policy, 1.0);
    println!("default at 1 a target: {followed:?}");
    assert!(followed.variation > 0.25 && followed.hit_rate > 0.95 * unconstrained(), "{followed:?}");
}
