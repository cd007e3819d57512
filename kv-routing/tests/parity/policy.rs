//! Decisions: who is chosen, in what order, at what cost.
//!
//! Costs are shown to ten digits. `exp`, `log` and `pow` come from another library in WebAssembly and may differ in the
//! last bit, which is the only difference there is.

use kv_routing::block::BlockSize;
use kv_routing::index::{Overlap, Overlaps};
use kv_routing::policy::document::{Mode, Policy};
use kv_routing::policy::program::{Binary, Op, Program, Unary, Variable};
use kv_routing::policy::{CostWeights, Hints, Outcome, Phase, Rng, Situation, SplitMix64, TargetLoad, route};
use kv_routing::target::Slot;
use kv_routing::wire::{Health, SourceState, TargetEntry, UnixMillis};

pub(crate) fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for (name, policy) in policies() {
        let mut rng = SplitMix64::new(99);
        for case in 0..25 {
            let pool = Pool::random(&mut SplitMix64::new(case));
            let outcome = route(&pool.situation(), &policy, &Hints { turn: case as u32, ..Hints::default() }, &mut rng);
            lines.push(format!("{name} {case}: {}", shown(&outcome)));
        }
    }
    lines
}

fn policies() -> Vec<(&'static str, Policy)> {
    let of = |mode| Policy { mode, ..Policy::named("p") };
    let weights = CostWeights { credit_decay: 0.7, request_weight: 3.3, temperature: 0.4, ..CostWeights::default() };
    // exp(-overlap / 50) * prompt blocks + active requests
    let expression = [
        Op::Load(Variable::DeviceBlocks),
        Op::Const(-50.0),
        Op::Binary(Binary::Div),
        Op::Unary(Unary::Exp),
        Op::Load(Variable::PromptBlocks),
        Op::Binary(Binary::Mul),
        Op::Load(Variable::ActiveRequests),
        Op::Binary(Binary::Add),
    ];
    vec![
        ("kv", of(Mode::Kv)),
        ("kv_sampled", Policy { weights, ..of(Mode::Kv) }),
        ("kv_expression", Policy { cost: Some(Program::new(expression.to_vec()).unwrap()), ..of(Mode::Kv) }),
        ("least_loaded", of(Mode::LeastLoaded)),
        ("power_of_two", of(Mode::PowerOfTwo)),
        ("round_robin", of(Mode::RoundRobin)),
        ("random", of(Mode::Random)),
        ("prefix_hash", of(Mode::PrefixHash { tokens: 256, load_bound_percent: 125 })),
    ]
}

struct Pool {
    targets: Vec<TargetEntry>,
    loads: Vec<TargetLoad>,
    overlaps: Overlaps,
    prompt_tokens: u32,
}

impl Pool {
    fn random(rng: &mut SplitMix64) -> Self {
        let mut below = |bound: u64| rng.next_u64() % bound;
        let count = below(12) + 1;
        let targets = (0..count).map(|at| target(at as u16, &mut below)).collect();
        let load = |below: &mut dyn FnMut(u64) -> u64| TargetLoad {
            requests: below(40) as f64 / 3.0,
            prefill_tokens: below(60_000),
            decode_blocks: below(9000) as f64 / 7.0,
            shared_blocks: below(5) as u32,
        };
        let loads = (0..count).map(|_| load(&mut below)).collect();
        let overlap = |below: &mut dyn FnMut(u64) -> u64| Overlap {
            device: below(200) as u32,
            host: below(50) as u32,
            disk: below(20) as u32,
        };
        let overlaps = (0..count).filter(|at| at % 3 != 1).map(|at| (Slot(at as u16), overlap(&mut below))).collect();
        Self { targets, loads, overlaps: Overlaps(overlaps), prompt_tokens: 5000 + below(50_000) as u32 }
    }

    fn situation(&self) -> Situation<'_> {
        static NONE: Overlaps = Overlaps(Vec::new());
        Situation {
            targets: &self.targets,
            loads: &self.loads,
            phase: Phase::Whole,
            prompt_tokens: self.prompt_tokens,
            block_size: BlockSize::new(16).unwrap(),
            overlaps: &self.overlaps,
            predicted: &NONE,
            prefix: Some(u64::from(self.prompt_tokens) << 32 | 7),
            has_chain: true,
            silence: None,
            stale_decay_ms: 30_000,
            now: UnixMillis(1_800_000_000_000),
        }
    }
}

fn target(at: u16, below: &mut impl FnMut(u64) -> u64) -> TargetEntry {
    TargetEntry {
        health: [Health::Healthy, Health::Healthy, Health::Healthy, Health::Unhealthy][below(4) as usize],
        source: [SourceState::Exact, SourceState::Warm, SourceState::Stale, SourceState::Mismatch][below(4) as usize],
        source_since: UnixMillis(1_800_000_000_000 - below(60_000)),
        capacity_blocks: 10_000,
        max_batched_tokens: 8192,
        running: below(9) as u32,
        waiting: below(3) as u32,
        kv_usage: below(100) as f32 / 100.0,
        ..TargetEntry::new(Slot(at), &format!("10.1.0.{at}:8000"), None)
    }
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Chosen(choice) => format!(
            "{:?} by {} at {:.9e}, runner-up {}, prefill {}, overlap {}",
            choice.order,
            choice.rung.as_str(),
            choice.cost.total,
            choice.runner_up.map_or("none".to_owned(), |(target, cost)| format!("{target} at {cost:.9e}")),
            choice.prefill_tokens,
            choice.overlap.total()
        ),
        other => format!("{other:?}"),
    }
}
