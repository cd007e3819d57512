//! Every mode, and every way out.

use super::*;
use crate::block::BlockSize;
use crate::index::{Overlap, Overlaps};
use crate::policy::document::{Affinity, Busy, Eligibility, LabelRule, Roles, SessionKey};
use crate::policy::eligible::tests::target;
use crate::policy::program::{Op, Program, Variable};
use crate::policy::{Phase, SplitMix64, TargetLoad};
use crate::target::Slot;
use crate::wire::{Health, Role, SourceState, TargetEntry, UnixMillis};

struct Pool {
    targets: Vec<TargetEntry>,
    loads: Vec<TargetLoad>,
    overlaps: Overlaps,
}

impl Pool {
    fn of(requests: &[f64]) -> Self {
        let load = |requests: &f64| TargetLoad {
            requests: *requests,
            decode_blocks: requests * 10.0,
            ..TargetLoad::default()
        };
        Self {
            targets: (0..).zip(requests).map(|(slot, _)| target(slot)).collect(),
            loads: requests.iter().map(load).collect(),
            overlaps: Overlaps::default(),
        }
    }

    fn holder(mut self, slot: u16, device: u32) -> Self {
        self.overlaps = Overlaps(vec![(Slot(slot), Overlap { device, host: 0, disk: 0 })]);
        self
    }

    fn outcome(&self, policy: &Policy, hints: Hints<'_>, seed: u64) -> Outcome {
        self.with_situation(|situation| route(situation, policy, &hints, &mut SplitMix64::new(seed)))
    }

    fn with_situation<T>(&self, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        let predicted = Overlaps::default();
        let situation = Situation {
            targets: &self.targets,
            loads: &self.loads,
            phase: Phase::Whole,
            prompt_tokens: 1600,
            block_size: BlockSize::new(16).unwrap(),
            overlaps: &self.overlaps,
            predicted: &predicted,
            prefix: Some(7),
            has_chain: true,
            silence: None,
            stale_decay_ms: 0,
            now: UnixMillis(100_000),
        };
        look(&situation)
    }

    fn target(&self, policy: &Policy, hints: Hints<'_>, seed: u64) -> u32 {
        match self.outcome(policy, hints, seed) {
            Outcome::Chosen(choice) => choice.target,
            other => panic!("{other:?}"),
        }
    }

    fn wins(&self, policy: &Policy) -> Vec<u32> {
        let mut wins = vec![0; self.targets.len()];
        for turn in 0..1200 {
            let hints = Hints { turn, ..Hints::default() };
            wins[self.target(policy, hints, u64::from(turn)) as usize] += 1;
        }
        wins
    }
}

fn mode(mode: Mode) -> Policy {
    Policy { mode, ..Policy::named("p") }
}

#[test]
fn kv_follows_the_cache_and_the_other_modes_do_not() {
    let pool = Pool::of(&[3.0, 0.0, 1.0]).holder(0, 90);
    assert_eq!(pool.target(&mode(Mode::Kv), Hints::default(), 1), 0);
    assert_eq!(pool.target(&mode(Mode::LeastLoaded), Hints::default(), 1), 1);
    assert_eq!(pool.wins(&mode(Mode::RoundRobin)), [400, 400, 400]);
    let random = pool.wins(&mode(Mode::Random));
    assert!(random.iter().all(|wins| (330..470).contains(wins)), "{random:?}");
    // Of two at random, the busiest never wins, the idlest wins whenever it is drawn: 2 of 3.
    let two = pool.wins(&mode(Mode::PowerOfTwo));
    assert!(two[0] == 0 && (730..870).contains(&two[1]), "{two:?}");
}

#[test]
fn prefix_hash_keeps_together_within_its_bound() {
    let hash = mode(Mode::PrefixHash { tokens: 256, load_bound_percent: 125 });
    let idle = Pool::of(&[0.0; 4]);
    let home = idle.target(&hash, Hints::default(), 1);
    assert_eq!(idle.wins(&hash)[home as usize], 1200);
    let mut busy = Pool::of(&[1.0; 4]);
    busy.loads[home as usize].requests = 10.0;
    assert_ne!(busy.target(&hash, Hints::default(), 1), home);
}

#[test]
fn sessions_stay_and_soft_ones_leave_a_busy_target() {
    let session = |hard| {
        let mut policy = mode(Mode::Session { key: SessionKey::User, hard, ttl_seconds: 60 });
        policy.busy = Busy { waiting: Some(2), ..Busy::default() };
        policy
    };
    let mut pool = Pool::of(&[0.0, 5.0, 0.0]);
    let known = Hints { session: Some(pool.targets[1].id), ..Hints::default() };
    assert_eq!(pool.target(&session(true), known, 1), 1);
    assert_eq!(pool.target(&session(false), known, 1), 1);
    assert_ne!(pool.target(&session(true), Hints::default(), 1), 1);
    pool.targets[1].waiting = 3;
    assert_eq!(pool.target(&session(true), known, 1), 1);
    assert_ne!(pool.target(&session(false), known, 1), 1);
    pool.targets[1].health = Health::Unhealthy;
    assert_ne!(pool.target(&session(true), known, 1), 1);
}

#[test]
fn direct_takes_the_named_target_or_says_why_not() {
    let direct = mode(Mode::Direct { header: "x-worker".into() });
    let mut pool = Pool::of(&[0.0, 0.0]);
    let name = pool.targets[1].endpoint.clone();
    let hints = Hints { direct: Some(name.as_bytes()), ..Hints::default() };
    assert_eq!(pool.target(&direct, hints, 1), 1);
    let refused =
        |pool: &Pool, value: Option<&[u8]>| match pool.outcome(&direct, Hints { direct: value, ..Hints::default() }, 1)
        {
            Outcome::Refused(refusal) => (refusal.status, refusal.message),
            other => panic!("{other:?}"),
        };
    assert_eq!(refused(&pool, None).0, 400);
    assert_eq!(refused(&pool, Some(b"\xff")).0, 400);
    assert!(refused(&pool, Some(b"1.2.3.4:5")).1.contains("1.2.3.4:5"));
    assert_eq!(refused(&pool, Some(format!("{name}#x").as_bytes())).0, 400);
    assert_eq!(refused(&pool, Some(format!("{name}#7").as_bytes())).0, 400);
    pool.targets[1].health = Health::Unhealthy;
    assert_eq!(refused(&pool, Some(name.as_bytes())).0, 503);
}

#[test]
fn overload_passes_or_refuses() {
    let mut pool = Pool::of(&[0.0, 0.0]);
    let mut policy = mode(Mode::Kv);
    policy.busy = Busy { kv_usage: Some(0.9), ..Busy::default() };
    pool.targets[0].kv_usage = 0.95;
    assert_eq!(pool.target(&policy, Hints::default(), 1), 1);
    pool.targets[1].kv_usage = 0.95;
    assert_eq!(pool.outcome(&policy, Hints::default(), 1), Outcome::Pass(PassReason::Busy));
    policy.overload = Overload::Reject { status: 529, retry_after_seconds: 7 };
    match pool.outcome(&policy, Hints::default(), 1) {
        Outcome::Refused(refusal) => assert_eq!((refusal.status, refusal.retry_after_seconds), (529, Some(7))),
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.outcome(&mode(Mode::Pass), Hints::default(), 1), Outcome::Pass(PassReason::Mode));
    assert_eq!(Pool::of(&[]).outcome(&mode(Mode::Kv), Hints::default(), 1), Outcome::Pass(PassReason::NoTarget));
}

#[test]
fn every_threshold_makes_busy() {
    let mut pool = Pool::of(&[0.0, 0.0]);
    pool.targets[0].capacity_blocks = 100;
    pool.targets[0].max_batched_tokens = 1000;
    pool.targets[0].waiting = 4;
    pool.loads[0].decode_blocks = 60.0;
    pool.loads[0].prefill_tokens = 3000;
    let mut cheap = mode(Mode::LeastLoaded);
    pool.loads[1].requests = 1.0;
    assert_eq!(pool.target(&cheap, Hints::default(), 1), 0);
    for busy in [
        Busy { decode_blocks_share: Some(0.5), ..Busy::default() },
        Busy { prefill_tokens: Some(2999), ..Busy::default() },
        Busy { prefill_steps: Some(2.9), ..Busy::default() },
        Busy { waiting: Some(3), ..Busy::default() },
    ] {
        cheap.busy = busy;
        assert_eq!(pool.target(&cheap, Hints::default(), 1), 1, "{busy:?}");
    }
}

#[test]
fn labels_and_states_restrict_and_prefer() {
    let mut pool = Pool::of(&[0.0, 0.0, 0.0]);
    pool.targets[2].labels = vec![("zone".into(), "b".into())];
    pool.loads[2].decode_blocks = 5.0;
    let zone = LabelRule { label: "zone".into(), values: vec!["b".into()] };
    let mut required = mode(Mode::Kv);
    required.eligibility = Eligibility { required_labels: vec![zone.clone()], ..Eligibility::default() };
    assert_eq!(pool.target(&required, Hints::default(), 1), 2);
    let mut preferred = mode(Mode::Kv);
    assert_ne!(pool.target(&preferred, Hints::default(), 1), 2);
    preferred.eligibility = Eligibility { preferred_labels: vec![(zone, 0.5)], ..Eligibility::default() };
    assert_eq!(pool.target(&preferred, Hints::default(), 1), 2);
    let mut warm = mode(Mode::Kv);
    warm.eligibility = Eligibility { states: vec![SourceState::Warm], ..Eligibility::default() };
    pool.targets[1].source = SourceState::Warm;
    assert_eq!(pool.target(&warm, Hints::default(), 1), 1);
}

#[test]
fn roles_restrict() {
    let mut pool = Pool::of(&[0.0, 0.0, 5.0]);
    pool.targets[1].role = Role::Prefill;
    pool.targets[2].role = Role::Decode;
    let only = |roles: &[Role]| {
        let mut policy = mode(Mode::LeastLoaded);
        policy.eligibility = Eligibility { roles: Roles::of(roles), ..Eligibility::default() };
        policy
    };
    assert_eq!(pool.target(&only(&[]), Hints::default(), 1), 0);
    assert_eq!(pool.target(&only(&[Role::Decode]), Hints::default(), 1), 2);
    assert_eq!(pool.target(&only(&[Role::Decode, Role::Both]), Hints::default(), 1), 0);
    let prefill = pool.outcome(&only(&[Role::Prefill]), Hints::default(), 1);
    assert_eq!(prefill, Outcome::Pass(PassReason::NoTarget), "a prefill target serves no whole request");
    let weighed = pool.with_situation(|situation| weigh(situation, &only(&[Role::Decode])));
    assert_eq!(weighed[0].cost, Err(LeftOut::Unfit));
}

#[test]
fn affinity_bounds_stop_following_a_busy_holder() {
    let pool = Pool::of(&[6.0, 0.0]).holder(0, 100);
    let mut policy = mode(Mode::Kv);
    assert_eq!(pool.target(&policy, Hints::default(), 1), 0);
    policy.affinity = Affinity { max_excess_blocks: Some(59.0), max_load_ratio: None };
    assert_eq!(pool.target(&policy, Hints::default(), 1), 1);
    policy.affinity = Affinity { max_excess_blocks: Some(60.0), max_load_ratio: None };
    assert_eq!(pool.target(&policy, Hints::default(), 1), 0);
    policy.affinity = Affinity { max_excess_blocks: None, max_load_ratio: Some(59.0) };
    assert_eq!(pool.target(&policy, Hints::default(), 1), 1);
}

#[test]
fn an_expression_replaces_the_cost_and_an_undefined_one_loses() {
    let mut pool = Pool::of(&[0.0, 0.0]).holder(0, 100);
    pool.targets[0].waiting = 1;
    let mut policy = mode(Mode::Kv);
    policy.cost = Some(Program::new(vec![Op::Load(Variable::Waiting)]).unwrap());
    assert_eq!(pool.target(&policy, Hints::default(), 1), 1);
    let inverse = [Op::Const(1.0), Op::Load(Variable::Waiting), Op::Binary(crate::policy::program::Binary::Div)];
    policy.cost = Some(Program::new(inverse.to_vec()).unwrap());
    assert_eq!(pool.target(&policy, Hints::default(), 1), 0);
    policy.cost = Some(Program::new(vec![Op::Load(Variable::DefaultCost)]).unwrap());
    assert_eq!(pool.target(&policy, Hints::default(), 1), 0);
}

#[test]
fn weighing_shows_the_costs_that_decide_and_why_others_are_left_out() {
    let mut pool = Pool::of(&[1.0, 0.0, 5.0, 2.0, 0.0]).holder(0, 70);
    pool.targets[1].health = Health::Unhealthy;
    pool.targets[2].waiting = 9;
    pool.targets[4].source = SourceState::None;
    let mut policy = mode(Mode::Kv);
    policy.busy = Busy { waiting: Some(8), ..Busy::default() };
    policy.eligibility = Eligibility { states: vec![SourceState::Exact], ..Eligibility::default() };
    let weighed = pool.with_situation(|situation| weigh(situation, &policy));
    let left_out: Vec<_> = weighed.iter().map(|weighed| weighed.cost.err()).collect();
    assert_eq!(left_out, [None, Some(LeftOut::Unfit), Some(LeftOut::Busy), None, Some(LeftOut::State)]);
    match pool.outcome(&policy, Hints::default(), 1) {
        Outcome::Chosen(choice) => {
            assert_eq!((choice.target, Ok(choice.cost)), (0, weighed[0].cost));
            assert_eq!(choice.runner_up, Some((3, weighed[3].cost.unwrap().total)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((weighed[0].overlap.device, weighed[4].trust), (70, 0.0));
}
