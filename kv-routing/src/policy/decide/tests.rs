use super::*;
use crate::policy::cost::tests::{symbols, transcription};
use crate::policy::document::Policy;
use crate::policy::eligible::tests::target;
use crate::policy::{Hints, Outcome, PREFIX_TOKENS, SplitMix64, prefix_key, route, weigh};
use crate::target::Slot;
use crate::wire::Health;

const NOW: UnixMillis = UnixMillis(100_000);

struct Pool {
    targets: Vec<TargetEntry>,
    loads: Vec<TargetLoad>,
    overlaps: Overlaps,
    predicted: Overlaps,
}

fn device(device: u32) -> Overlap {
    Overlap { device, host: 0, disk: 0 }
}

impl Pool {
    fn of(targets: u16) -> Self {
        Self {
            targets: (0..targets).map(target).collect(),
            loads: vec![TargetLoad::default(); targets.into()],
            overlaps: Overlaps::default(),
            predicted: Overlaps::default(),
        }
    }

    fn sources(mut self, state: SourceState) -> Self {
        self.targets.iter_mut().for_each(|target| target.source = state);
        self
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            targets: &self.targets,
            loads: &self.loads,
            phase: Phase::Whole,
            prompt_tokens: 1600,
            block_size: BlockSize::new(16).unwrap(),
            overlaps: &self.overlaps,
            predicted: &self.predicted,
            prefix: Some(7),
            has_chain: true,
            silence: None,
            stale_decay_ms: 10_000,
            now: NOW,
        }
    }

    fn decide(&self) -> Choice {
        decide(&self.situation(), &Ladder::default(), &mut SplitMix64::new(1)).unwrap()
    }
}

#[test]
fn the_holder_of_the_prefix_wins_until_it_is_too_busy() {
    let mut pool = Pool::of(3);
    pool.overlaps = Overlaps(vec![(Slot(1), device(60))]);
    let choice = pool.decide();
    assert_eq!((choice.target, choice.rung, choice.overlap), (1, Rung::Exact, device(60)));
    assert_eq!(choice.prefill_tokens, 640);
    assert_eq!(choice.cost, CostParts { prefill: 40.0, credit: 60.0, decode: 100.0, requests: 0.0, total: 140.0 });
    assert_eq!(choice.runner_up.unwrap().1, 200.0);

    pool.loads[1].decode_blocks = 59.0;
    assert_eq!(pool.decide().target, 1);
    pool.loads[1].decode_blocks = 61.0;
    assert_ne!(pool.decide().target, 1);
}

#[test]
fn blocks_that_active_requests_share_are_not_added_twice() {
    let mut pool = Pool::of(2);
    pool.loads[0] = TargetLoad { decode_blocks: 50.0, shared_blocks: 48, ..TargetLoad::default() };
    let choice = pool.decide();
    assert_eq!((choice.target, choice.cost.decode), (1, 100.0));
    assert_eq!(choice.runner_up, Some((0, 100.0 + 50.0 + 52.0)));
}

#[test]
fn fallbacks_come_by_cost_and_name_every_endpoint_once() {
    let mut pool = Pool::of(5);
    for (position, blocks) in [(0, 40.0), (1, 10.0), (2, 30.0), (3, 20.0), (4, 0.0)] {
        pool.loads[position].decode_blocks = blocks;
    }
    pool.targets[1].endpoint = pool.targets[4].endpoint.clone();
    pool.targets[1].rank = Some(1);
    assert_eq!(pool.decide().order, [4, 3, 2]);
    let one = Ladder { endpoints: 1, ..Ladder::default() };
    assert_eq!(decide(&pool.situation(), &one, &mut SplitMix64::new(1)).unwrap().order, [4]);
}

#[test]
fn overlap_of_a_mismatched_source_counts_nothing_while_others_are_exact() {
    let mut pool = Pool::of(2);
    pool.overlaps = Overlaps(vec![(Slot(0), device(100))]);
    pool.loads[0].decode_blocks = 1.0;
    pool.targets[0].source = SourceState::Mismatch;
    let choice = pool.decide();
    assert_eq!((choice.target, choice.overlap, choice.rung), (1, Overlap::default(), Rung::Exact));
}

#[test]
fn stale_credit_fades() {
    let mut pool = Pool::of(2).sources(SourceState::Stale);
    pool.overlaps = Overlaps(vec![(Slot(0), device(100))]);
    pool.targets.iter_mut().for_each(|target| target.source_since = UnixMillis(NOW.0 - 7500));
    let choice = pool.decide();
    assert_eq!((choice.target, choice.state, choice.cost.credit), (0, SourceState::Stale, 25.0));
    assert_eq!(choice.overlap, device(100));
}

#[test]
fn a_silent_bridge_ends_in_the_prefix_hash_once_all_credit_is_gone() {
    let mut pool = Pool::of(4);
    pool.overlaps = Overlaps(vec![(Slot(2), device(100))]);
    let at = |since| {
        let silence = Some(BridgeSilence { since: UnixMillis(since) });
        let situation = Situation { silence, ..pool.situation() };
        decide(&situation, &Ladder::default(), &mut SplitMix64::new(1)).unwrap()
    };
    assert_eq!((at(NOW.0 - 5000).target, at(NOW.0 - 5000).rung), (2, Rung::Exact));
    assert_eq!(at(NOW.0 - 10_000).rung, Rung::PrefixHash);
}

#[test]
fn without_kv_state_predictions_come_next() {
    let mut pool = Pool::of(3).sources(SourceState::None);
    pool.overlaps = Overlaps(vec![(Slot(0), device(100))]);
    pool.predicted = Overlaps(vec![(Slot(2), device(90))]);
    let choice = pool.decide();
    assert_eq!((choice.target, choice.rung, choice.overlap), (2, Rung::Predicted, device(90)));
}

#[test]
fn siblings_follow_the_first_one_whose_prefill_they_share() {
    let mut pool = Pool::of(3);
    pool.predicted = Overlaps(vec![(Slot(2), device(60))]);
    pool.loads[2] = TargetLoad { prefill_tokens: 60 * 16, decode_blocks: 60.0, ..TargetLoad::default() };
    let choice = pool.decide();
    assert_eq!((choice.target, choice.rung, choice.overlap), (2, Rung::Predicted, device(60)));
    // What else is queued there is in the way.
    pool.loads[2].prefill_tokens += 200 * 16;
    assert_ne!(pool.decide().target, 2);
}

#[test]
fn the_index_counts_where_it_says_as_much_as_predictions() {
    let mut pool = Pool::of(2);
    pool.overlaps = Overlaps(vec![(Slot(1), device(50))]);
    pool.predicted = Overlaps(vec![(Slot(1), device(50))]);
    let choice = pool.decide();
    assert_eq!((choice.target, choice.rung, choice.overlap), (1, Rung::Exact, device(50)));
}

#[test]
fn without_predictions_a_prefix_keeps_its_target_within_a_bounded_load() {
    let mut pool = Pool::of(4).sources(SourceState::None);
    let first = pool.decide();
    assert_eq!(first.rung, Rung::PrefixHash);
    assert_eq!((first.overlap, first.prefill_tokens), (Overlap::default(), 1600));
    for seed in 0..20 {
        let again = decide(&pool.situation(), &Ladder::default(), &mut SplitMix64::new(seed)).unwrap();
        assert_eq!(again.target, first.target);
    }
    pool.loads[first.target as usize].requests = 3.0;
    let moved = pool.decide();
    assert_ne!(moved.target, first.target);
    assert_eq!(moved.rung, Rung::PrefixHash);
}

#[test]
fn text_without_tokens_is_hashed_and_nothing_at_all_goes_by_load() {
    let mut pool = Pool::of(3);
    pool.loads[0].decode_blocks = 5.0;
    pool.loads[2].decode_blocks = 5.0;
    let block_size = BlockSize::new(16).unwrap();
    let text = Situation {
        has_chain: false,
        prefix: prefix_key(&[], block_size, b"hello", PREFIX_TOKENS),
        ..pool.situation()
    };
    assert_eq!(decide(&text, &Ladder::default(), &mut SplitMix64::new(1)).unwrap().rung, Rung::PrefixHash);
    let short = Situation { has_chain: false, prefix: None, prompt_tokens: 15, ..pool.situation() };
    let choice = decide(&short, &Ladder::default(), &mut SplitMix64::new(1)).unwrap();
    assert_eq!((choice.target, choice.rung, choice.prefill_tokens), (1, Rung::Load, 15));
}

#[test]
fn with_nobody_to_choose_the_request_is_left_to_envoy() {
    let mut pool = Pool::of(2);
    pool.targets.iter_mut().for_each(|target| target.health = Health::Unhealthy);
    let refused = decide(&pool.situation(), &Ladder::default(), &mut SplitMix64::new(1));
    assert_eq!(refused, Err(NoTarget { targets: 2 }));
}

#[test]
fn a_temperature_spreads_what_zero_would_not() {
    let mut pool = Pool::of(2);
    pool.overlaps = Overlaps(vec![(Slot(0), device(50))]);
    let weights = CostWeights { temperature: 2.0, ..CostWeights::default() };
    let ladder = Ladder { weights, ..Ladder::default() };
    let mut rng = SplitMix64::new(4);
    let mut second = 0;
    for _ in 0..1000 {
        let choice = decide(&pool.situation(), &ladder, &mut rng).unwrap();
        second += choice.target;
        assert_eq!(choice.order.len(), 2);
    }
    let expected = 1000.0 / (1.0 + 0.5_f64.exp());
    assert!((f64::from(second) - expected).abs() < 50.0, "{second} is not about {expected}");
}

/// 10,000 random pools through a policy, as the filter sends requests: every target costs what the published formula says, and the
/// chosen one is the one that is cheapest by it; one of them where several are.
#[test]
fn cost_and_choice_are_those_of_the_published_formula() {
    let mut alone = 0;
    let mut rng = SplitMix64::new(77);
    let mut below = |bound: u64| rng.next_u64() % bound;
    for round in 0..10_000 {
        let mut pool = Pool::of(1 + below(12) as u16);
        let mut overlaps = Vec::new();
        for (target, load) in pool.targets.iter().zip(&mut pool.loads) {
            let (requests, shared_blocks) = (below(20) as f64, below(60) as u32);
            let prefill_tokens = below(30_000);
            *load = TargetLoad { requests, prefill_tokens, decode_blocks: below(2_000) as f64, shared_blocks };
            let (device, host, disk) = (below(60) as u32, below(20) as u32, below(20) as u32);
            overlaps.push((target.slot, Overlap { device, host, disk }));
        }
        pool.overlaps = Overlaps(overlaps);
        let weights = CostWeights {
            device_credit: below(120) as f64 / 100.0,
            credit_decay: below(200) as f64 / 100.0,
            prefill_scale: below(300) as f64 / 100.0,
            host_credit: below(101) as f64 / 100.0,
            disk_credit: below(101) as f64 / 100.0,
            request_weight: below(500) as f64 / 100.0,
            ..CostWeights::default()
        };
        let situation = Situation { prompt_tokens: 1 + below(1_600) as u32, ..pool.situation() };
        let (l, b) = (f64::from(situation.prompt_tokens), 16.0_f64);
        let n = (l / b).ceil();
        let min_p = pool.loads.iter().map(|load| load.prefill_tokens).min().unwrap() as f64;
        let costs: Vec<f64> = (pool.targets.iter().zip(&pool.loads))
            .map(|(target, load)| {
                let held = pool.overlaps.get(target.slot);
                let d = load.decode_blocks + (n - f64::from(load.shared_blocks)).max(0.0);
                let state = (l, b, load.prefill_tokens as f64, min_p, d, load.requests);
                transcription(symbols(&weights), state, (held.device.into(), held.host.into(), held.disk.into(), 0.0))
            })
            .collect();
        let policy = Policy { weights, ..Policy::named("p") };
        let close = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs().max(1.0);
        for (weighed, expected) in weigh(&situation, &policy).iter().zip(&costs) {
            let found = weighed.cost.unwrap().total;
            assert!(close(found, *expected), "round {round}: {found} of {costs:?}");
        }
        let Outcome::Chosen(choice) = route(&situation, &policy, &Hints::default(), &mut SplitMix64::new(round)) else {
            panic!("round {round}: nobody is chosen")
        };
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let cheapest: Vec<u32> = (0..).zip(&costs).filter(|(_, cost)| close(**cost, least)).map(|(at, _)| at).collect();
        assert!(cheapest.contains(&choice.target), "round {round}: {} of {costs:?}", choice.target);
        alone += u32::from(cheapest.len() == 1);
    }
    assert!(alone > 9_000, "ties hide the choice of {} pools", 10_000 - alone);
}
