//! What the filter adds to a request: Envoy with it, the same Envoy without it, and the worker directly.

mod scene;
mod start;
mod table;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::bodies::{self, Bodies, Unique};
use crate::cpu;
use crate::load::{Load, Report};
pub use scene::Scene;
pub use start::{ready, render_ready};
pub use table::render;

const PATH: &str = "/v1/chat/completions";
/// Different conversations in rotation, so that no cache holds just one.
const CONVERSATIONS: u64 = 8;
const ROUNDS: usize = 3;
const MANY_CONNECTIONS: usize = 16;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Prompt tokens, about.
    pub tokens: usize,
    /// Whether prompts share all but their end, or nothing.
    pub unique: Unique,
    /// Budget for what the filter adds to the median.
    pub budget: Duration,
}

impl Case {
    /// Every case, with its budget.
    pub const ALL: [Self; 8] = [
        Self::new(1_000, Unique::Tail, 130),
        Self::new(8_000, Unique::Tail, 300),
        Self::new(32_000, Unique::Tail, 700),
        Self::new(128_000, Unique::Tail, 2_000),
        Self::new(1_000, Unique::Throughout, 400),
        Self::new(8_000, Unique::Throughout, 2_000),
        Self::new(32_000, Unique::Throughout, 6_000),
        Self::new(128_000, Unique::Throughout, 25_000),
    ];

    const fn new(tokens: usize, unique: Unique, budget_us: u64) -> Self {
        Self { tokens, unique, budget: Duration::from_micros(budget_us) }
    }
}

/// Where requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a worker.
    Direct,
    /// Through Envoy without the filter.
    Plain,
    /// Through Envoy with the filter.
    Filter,
}

/// Latency of one request at a time, and throughput of many, one way.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Median latency.
    pub p50: Duration,
    /// Latency of the slowest hundredth.
    pub p99: Duration,
    /// Processor time of Envoy for one request; zero where there is none.
    pub cpu: Duration,
    /// Requests per second over many connections.
    pub per_second: f64,
}

/// A case, measured.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What was measured.
    pub case: Case,
    /// The worker.
    pub direct: Measured,
    /// Envoy without the filter.
    pub plain: Measured,
    /// Envoy with the filter.
    pub filter: Measured,
}

impl Case {
    /// Measures the case. Ways take turns, so that what disturbs the machine disturbs all.
    ///
    /// # Errors
    /// When any request fails.
    pub async fn measure(self, scene: &Scene, seconds: f64) -> Result<Outcome> {
        let bodies = bodies::chats(scene.model(), self.tokens, CONVERSATIONS, self.unique);
        if self.unique == Unique::Tail {
            scene.warm(&bodies).await?;
        }
        let duration = Duration::from_secs_f64(seconds);
        let ways = [Way::Direct, Way::Plain, Way::Filter];
        let mut single: [Vec<Sample>; 3] = Default::default();
        let mut many: [Vec<Sample>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for (at, way) in ways.into_iter().enumerate() {
                single[at].push(sample(scene, way, &bodies, 1, duration)?);
                many[at].push(sample(scene, way, &bodies, MANY_CONNECTIONS, duration)?);
            }
        }
        let [direct, plain, filter] = std::array::from_fn(|at| measured(&single[at], &many[at]));
        Ok(Outcome { case: self, direct, plain, filter })
    }
}

struct Sample {
    report: Report,
    cpu: Duration,
}

fn sample(scene: &Scene, way: Way, bodies: &Bodies, connections: usize, duration: Duration) -> Result<Sample> {
    let load = Load {
        address: &scene.address(way),
        path: PATH,
        bodies: &bodies.bodies,
        unique_at: Some(&bodies.unique_at),
        connections,
        duration,
    };
    let process = scene.envoy_process(way);
    let before = process.map(cpu::time);
    let report = load.run()?;
    let spent = process.zip(before).map_or(Duration::ZERO, |(process, before)| cpu::time(process) - before);
    ensure!(report.failures == 0, "{} requests failed, the first: {:?}", report.failures, report.first_failure);
    let requests = u32::try_from(report.requests().max(1))?;
    Ok(Sample { cpu: spent / requests, report })
}

/// The median of every figure over the rounds.
fn measured(single: &[Sample], many: &[Sample]) -> Measured {
    Measured {
        p50: median(single.iter().map(|sample| sample.report.quantile(0.5))),
        p99: median(single.iter().map(|sample| sample.report.quantile(0.99))),
        cpu: median(many.iter().map(|sample| sample.cpu)),
        per_second: median(many.iter().map(|sample| sample.report.per_second())),
    }
}

fn median<T: PartialOrd + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    values[values.len() / 2]
}
