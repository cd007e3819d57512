//! Two prefill and two decode targets, and what can be wrong with them.

use super::*;
use crate::block::BlockSize;
use crate::index::Overlap;
use crate::policy::SplitMix64;
use crate::policy::document::{Busy, Overload};
use crate::policy::eligible::tests::target;
use crate::target::Slot;
use crate::wire::UnixMillis;

struct Pool {
    targets: Vec<TargetEntry>,
    loads: Vec<TargetLoad>,
    overlaps: Overlaps,
    /// Whether the request can be handed over.
    fits: bool,
}

/// Positions 0 and 1 prefill, 2 and 3 decode.
fn pool() -> Pool {
    let roles = [Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];
    let targets = (0..).zip(roles).map(|(slot, role)| TargetEntry { role, ..target(slot) }).collect();
    Pool { targets, loads: vec![TargetLoad::default(); 4], overlaps: Overlaps::default(), fits: true }
}

impl Pool {
    fn plan_with(&self, policy: &Policy, protocol: Protocol, hints: &Hints<'_>) -> Plan {
        let situation = Situation {
            targets: &self.targets,
            loads: &self.loads,
            phase: Phase::Whole,
            prompt_tokens: 1600,
            block_size: BlockSize::new(16).unwrap(),
            overlaps: &self.overlaps,
            predicted: &Overlaps::default(),
            prefix: Some(7),
            has_chain: true,
            silence: None,
            stale_decay_ms: 0,
            now: UnixMillis(100_000),
        };
        plan(&situation, policy, protocol, self.fits, hints, &mut SplitMix64::new(3))
    }

    fn plan_by(&self, policy: &Policy, protocol: Protocol) -> Plan {
        self.plan_with(policy, protocol, &Hints::default())
    }

    fn plan(&self, policy: &Policy) -> Plan {
        self.plan_by(policy, Protocol::Nixl)
    }

    fn hold(&mut self, slot: u16, device: u32) {
        self.overlaps.0.push((Slot(slot), Overlap { device, host: 0, disk: 0 }));
        self.overlaps.0.sort_by_key(|(slot, _)| *slot);
    }

    fn label(&mut self, position: usize, value: &str) {
        self.targets[position].labels.push(("zone".into(), value.into()));
    }
}

fn apart(plan: &Plan) -> (u32, u32) {
    match (&plan.outcome, &plan.decode, plan.whole) {
        (Outcome::Chosen(prefill), Some(decode), None) => (prefill.target, decode.target),
        _ => panic!("not apart: {plan:?}"),
    }
}

fn whole(plan: &Plan) -> (u32, Option<Whole>) {
    match (&plan.outcome, &plan.decode) {
        (Outcome::Chosen(choice), None) => (choice.target, plan.whole),
        _ => panic!("not whole: {plan:?}"),
    }
}

fn refused(plan: &Plan) -> u16 {
    match &plan.outcome {
        Outcome::Refused(refusal) => {
            assert!(refusal.status == 400 || refusal.retry_after_seconds.is_some(), "{refusal:?}");
            refusal.status
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn policy(change: impl FnOnce(&mut Disaggregation)) -> Policy {
    let mut policy = Policy::named("p");
    change(&mut policy.disaggregation);
    policy
}

#[test]
fn prefill_goes_by_its_cache_and_decode_by_load() {
    let mut pool = pool();
    pool.hold(1, 90);
    // Neither what decode targets hold nor the blocks in use on prefill targets count.
    pool.hold(3, 100);
    pool.loads[1].decode_blocks = 5000.0;
    pool.loads[3].decode_blocks = 1.0;
    let plan = pool.plan(&Policy::named("p"));
    assert_eq!(apart(&plan), (1, 2));
    let Outcome::Chosen(prefill) = plan.outcome else { unreachable!() };
    assert_eq!((prefill.prefill_tokens, prefill.overlap.device, prefill.order), (160, 90, vec![1, 0]));
    pool.loads[1].prefill_tokens = 100_000;
    assert_eq!(apart(&pool.plan(&Policy::named("p"))), (0, 2));
}

#[test]
fn what_forbids_it() {
    let never = policy(|rules| rules.mode = DisaggregationMode::Never);
    assert_eq!(whole(&pool().plan(&never)).1, None);
    let direct = Policy { mode: Mode::Direct { header: "x".into() }, ..Policy::named("p") };
    assert_eq!(refused(&pool().plan(&direct)), 400);
    let mut plain = pool();
    plain.targets.iter_mut().for_each(|target| target.role = Role::Both);
    assert_eq!(whole(&plain.plan(&Policy::named("p"))).1, None);
}

#[test]
fn without_prefill_targets_the_policy_decides() {
    let strict = policy(|rules| rules.aggregated_fallback = false);
    for gone in [Health::Unhealthy, Health::Healthy] {
        let mut pool = pool();
        if gone == Health::Unhealthy {
            pool.targets[..2].iter_mut().for_each(|target| target.health = gone);
        } else {
            pool.targets.drain(..2);
            pool.loads.drain(..2);
        }
        assert_eq!(whole(&pool.plan(&Policy::named("p"))).1, Some(Whole::NoPrefill));
        assert_eq!(refused(&pool.plan(&strict)), 503);
        // SGLang's decode engines cannot do it, others can.
        assert_eq!(refused(&pool.plan_by(&Policy::named("p"), Protocol::Sglang)), 503);
        pool.targets[0].role = Role::Both;
        pool.targets[0].health = Health::Healthy;
        assert_eq!(whole(&pool.plan_by(&Policy::named("p"), Protocol::Sglang)), (0, Some(Whole::NoPrefill)));
    }
}

#[test]
fn short_prompts_stay_at_the_decode_target_that_holds_most() {
    let mut pool = pool();
    pool.hold(3, 90);
    let by_tokens = |tokens| policy(|rules| rules.min_uncached_tokens = tokens);
    assert_eq!(whole(&pool.plan(&by_tokens(161))), (3, Some(Whole::Short)));
    assert_eq!(apart(&pool.plan(&by_tokens(160))).1, 3);
    let by_ratio = |ratio| policy(|rules| rules.min_uncached_ratio = ratio);
    assert_eq!(whole(&pool.plan(&by_ratio(0.11))), (3, Some(Whole::Short)));
    assert_eq!(apart(&pool.plan(&by_ratio(0.09))).1, 3);
    assert_eq!(apart(&pool.plan_by(&by_tokens(161), Protocol::Sglang)).1, 3);
}

#[test]
fn a_busy_prefill_pool_is_spared() {
    let busy = policy(|rules| rules.prefill_busy_tokens = Some(999));
    let mut pool = pool();
    pool.loads[0].prefill_tokens = 1000;
    assert_eq!(apart(&pool.plan(&busy)).0, 1);
    pool.loads[1].prefill_tokens = 1000;
    assert_eq!(whole(&pool.plan(&busy)).1, Some(Whole::PrefillBusy));
    // The thresholds for single targets hold on both sides.
    let single = Policy { busy: Busy { prefill_tokens: Some(999), ..Busy::default() }, ..Policy::named("p") };
    assert_eq!(whole(&pool.plan(&single)).1, Some(Whole::PrefillBusy));
    // Engines that serve nothing whole go on, and the thresholds for single targets are obeyed.
    assert_eq!(apart(&pool.plan_by(&busy, Protocol::Sglang)).1, 2);
    assert_eq!(refused(&pool.plan_by(&single, Protocol::Sglang)), 503);
    let strict =
        Policy { disaggregation: Disaggregation { aggregated_fallback: false, ..single.disaggregation }, ..single };
    let overload = Overload::Reject { status: 429, retry_after_seconds: 7 };
    let plan = pool.plan(&Policy { overload, ..strict.clone() });
    assert_eq!((refused(&plan), plan.whole), (429, Some(Whole::PrefillBusy)));
    assert!(matches!(plan.outcome, Outcome::Refused(Refusal { retry_after_seconds: Some(7), .. })));
    assert_eq!(refused(&pool.plan(&strict)), 503);
}

/// Nobody is busy where nobody is.
#[test]
fn a_prefill_pool_that_is_gone_is_not_busy() {
    let mut pool = pool();
    pool.targets[..2].iter_mut().for_each(|target| target.health = Health::Unhealthy);
    let rules =
        |fallback| policy(|rules| (rules.prefill_busy_tokens, rules.aggregated_fallback) = (Some(1000), fallback));
    let plan = pool.plan(&rules(false));
    assert_eq!((refused(&plan), plan.whole), (503, Some(Whole::NoPrefill)));
    assert_eq!(whole(&pool.plan(&rules(true))).1, Some(Whole::NoPrefill));
}

#[test]
fn a_decode_pool_that_is_gone_or_busy_is_named() {
    let gone = |health, waiting| {
        let mut pool = pool();
        for target in &mut pool.targets[2..] {
            (target.health, target.waiting) = (health, waiting);
        }
        pool
    };
    let bounded = Policy { busy: Busy { waiting: Some(4), ..Busy::default() }, ..Policy::named("p") };
    for (pool, why, reason) in [
        (gone(Health::Unhealthy, 0), Whole::NoDecode, PassReason::NoTarget),
        (gone(Health::Healthy, 5), Whole::DecodeBusy, PassReason::Busy),
    ] {
        let plan = pool.plan(&bounded);
        assert_eq!((&plan.outcome, plan.whole), (&Outcome::Pass(reason), Some(why)), "by the policy's overload");
        assert_eq!(refused(&pool.plan_by(&bounded, Protocol::Sglang)), 503, "Envoy would find nobody either");
        let mut strict = bounded.clone();
        strict.disaggregation.aggregated_fallback = false;
        let Outcome::Refused(refusal) = pool.plan(&strict).outcome else { panic!("not refused") };
        assert!(refusal.message.starts_with("decode: "), "{}", refusal.message);
    }
}

/// SGLang's decode engines answer nothing that was not prefilled for them, whatever the reason.
#[test]
fn engines_that_serve_nothing_whole_are_sent_nothing_whole() {
    let never = policy(|rules| rules.mode = DisaggregationMode::Never);
    let mut other = pool();
    other.fits = false;
    for (pool, policy) in [(pool(), &never), (other, &Policy::named("p"))] {
        assert_eq!(refused(&pool.plan_by(policy, Protocol::Sglang)), 503);
        assert!(matches!(whole(&pool.plan(policy)), (2 | 3, None)));
        let mut mixed = pool;
        mixed.targets[3].role = Role::Both;
        assert_eq!(whole(&mixed.plan_by(policy, Protocol::Sglang)), (3, None));
    }
}

#[test]
fn every_prefill_target_is_named_with_what_is_believed_of_it() {
    let mut pool = pool();
    pool.hold(0, 50);
    pool.hold(1, 90);
    let one = Policy { fallbacks: 0, ..Policy::named("p") };
    let plan = pool.plan(&one);
    let (Outcome::Chosen(mut prefill), Some(decode)) = (plan.outcome, plan.decode) else { panic!("not apart") };
    assert_eq!((prefill.target, prefill.overlap.device, prefill.prefill_tokens), (1, 90, 160));
    assert!(prefill.take_next());
    assert_eq!((prefill.target, prefill.overlap.device, prefill.prefill_tokens), (0, 50, 800));
    assert_eq!(prefill.order, [0]);
    assert!(!prefill.take_next());
    assert_eq!(decode.order.len(), 1, "decode targets as the policy says");
}

#[test]
fn a_label_ties_decode_to_prefill() {
    let mut pool = pool();
    pool.hold(0, 100);
    for (position, zone) in ["a", "b", "b", "a"].into_iter().enumerate() {
        pool.label(position, zone);
    }
    pool.loads[3].decode_blocks = 60.0;
    let topology = |required| policy(|rules| rules.topology = Some(Topology { label: "zone".into(), required }));
    assert_eq!(apart(&pool.plan(&Policy::named("p"))), (0, 2));
    assert_eq!(apart(&pool.plan(&topology(true))), (0, 3));
    // The other prefill target is no substitute: it is in another zone.
    let Outcome::Chosen(prefill) = pool.plan(&topology(true)).outcome else { unreachable!() };
    assert_eq!(prefill.order, [0]);
    // A preference gives way when nobody near can be chosen.
    assert_eq!(apart(&pool.plan(&topology(false))), (0, 3));
    pool.targets[3].waiting = 5;
    let bounded = Policy { busy: Busy { waiting: Some(4), ..Busy::default() }, ..topology(false) };
    assert_eq!(apart(&pool.plan(&bounded)), (0, 2));
    // One that is required has the next best pair taken.
    let bounded = Policy { busy: Busy { waiting: Some(4), ..Busy::default() }, ..topology(true) };
    assert_eq!(apart(&pool.plan(&bounded)), (1, 2));
    pool.targets[3].health = Health::Unhealthy;
    assert_eq!(apart(&pool.plan(&topology(true))), (1, 2));
    pool.targets[1].health = Health::Unhealthy;
    assert_eq!(whole(&pool.plan(&topology(true))).1, Some(Whole::NoDecode));
    pool.targets[1].health = Health::Healthy;
    pool.targets[0].labels.clear();
    assert_eq!(apart(&pool.plan(&topology(true))), (0, 2));
}

#[test]
fn the_mode_chooses_who_prefills_and_load_who_decodes() {
    let mut pool = pool();
    pool.loads[2].decode_blocks = 1.0;
    let policy = Policy { mode: Mode::RoundRobin, ..Policy::named("p") };
    let in_turn = |pool: &Pool, policy: &Policy, turn| {
        let hints = Hints { turn, ..Hints::default() };
        apart(&pool.plan_with(policy, Protocol::Nixl, &hints))
    };
    for (turn, prefill) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        assert_eq!(in_turn(&pool, &policy, turn), (prefill, 3));
    }
    // What decode targets hold counts where short prompts may stay there, in this mode too.
    pool.hold(2, 50);
    assert_eq!(in_turn(&pool, &policy, 0), (0, 3));
    let mut conditional = policy;
    conditional.disaggregation.min_uncached_tokens = 1;
    assert_eq!(in_turn(&pool, &conditional, 0), (0, 2));
    assert_eq!(in_turn(&pool, &conditional, 1), (1, 2));
}
