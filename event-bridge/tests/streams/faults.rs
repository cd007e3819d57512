//! An engine's publisher behind a proxy that loses, repeats, reorders and cuts its messages, and at which it dies, over real sockets:
//! the index ends as what the engine holds, or the state says that it does not; and at no step between is it called exact and is
//! not. Seeds decide what the proxy does; `PROXY_RUNS` says how many there are, `PROXY_SEED` runs one of them.

#[path = "../gap_simulation/dice.rs"]
mod dice;
mod engine;
mod proxy;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use event_bridge::ingest::{Action, Ingest, IngestConfig, Parity, SourceReport, SourceSpec};
use event_bridge::stream::StreamSpec;
use kv_routing::wire::SourceState;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::dice::Dice;
use self::engine::Engine;
use self::proxy::{Made, Proxy, Weather};
use super::{Rig, SLOT, spec};

/// Ingest's clock runs so much faster, so that its audits need no patience.
const HASTE: u32 = 20;

/// A bridge's stream and ingest behind a proxy.
struct World {
    engine: Engine,
    proxy: Proxy,
    rig: Rig,
    ingest: Ingest,
    began: Instant,
    /// Looks at an index that was called exact.
    looks: u64,
    context: String,
}

impl World {
    async fn new(seed: u64) -> Self {
        let engine = Engine::start().await;
        let proxy = Proxy::start(engine.clone(), seed).await;
        let mut spec = StreamSpec { replay_endpoint: Some(proxy.replay.clone()), ..spec(&proxy.live) };
        spec.limits.replay_silence = Duration::from_millis(100);
        let mut ingest = Ingest::new(IngestConfig::default());
        ingest.add_target(SLOT, SourceSpec { replay: true, rank: Some(0), ..SourceSpec::default() });
        let (began, context) = (Instant::now(), format!("seed {seed}"));
        Self { engine, proxy, rig: Rig::new(spec), ingest, began, looks: 0, context }
    }

    /// Takes what comes for a while.
    async fn pass(&mut self, time: Duration) {
        self.follow(time, |_| false).await;
    }

    /// Takes what comes until `done`, for a while at most. Whether it is.
    async fn follow(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let until = Instant::now() + time;
        while !done(self) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let event = timeout(left.min(Duration::from_millis(10)), self.rig.events.recv()).await;
            let now = self.began + self.began.elapsed() * HASTE;
            let mut actions = match event {
                Ok(event) => self.ingest.handle(SLOT, event.unwrap().1, now),
                Err(_) => Vec::new(),
            };
            actions.extend(self.ingest.tick(now).into_iter().map(|(_, action)| action));
            for Action::Replay { id, from } in actions {
                self.rig.stream.replay(id, from);
            }
            // Another process has to show that it agrees, which is not the matter here.
            self.ingest.set_parity(SLOT, Parity::Shown);
            self.look();
        }
        true
    }

    fn look(&mut self) {
        let report = self.report();
        if report.state == SourceState::Exact {
            self.looks += 1;
            let indexed = self.indexed();
            let agrees = report.last_seq.map_or(indexed.is_empty(), |seq| self.engine.ever_held(&indexed, seq));
            assert!(agrees, "EXACT and wrong\n{}\n{report:?}", self.context);
        }
    }

    fn report(&self) -> SourceReport {
        self.ingest.report(SLOT).unwrap()
    }

    fn indexed(&self) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        self.ingest.index().for_each_holder(|_, _, block, _| {
            all.insert(block.0);
        });
        all
    }

    /// Whether everything published is in the index, and known to be.
    fn is_exact(&self) -> bool {
        self.report().state == SourceState::Exact && self.indexed() == self.engine.truth()
    }
}

/// Some faults are made in a run, and others are not.
fn weather(dice: &mut Dice) -> Weather {
    let mut chance = |most: usize| if dice.below(2) == 0 { 0 } else { dice.between(most / 4, most) };
    Weather {
        drop: chance(200),
        duplicate: chance(200),
        reorder: chance(200),
        truncate: chance(80),
        thin_replay: chance(400),
        without_marker: chance(400),
        restart_in_replay: chance(400),
    }
}

/// What came of a run.
struct Outcome {
    made: Made,
    looks: u64,
    restarts: u64,
    /// It was exact again by itself.
    recovered: bool,
}

async fn run(seed: u64) -> Outcome {
    let mut dice = Dice::new(seed ^ 0xfeed);
    let mut world = World::new(seed).await;
    // Some engines have lived for a while before anyone listens.
    world.engine.work(dice.below(2) * dice.below(30));
    let connected = |world: &World| world.rig.stream.stats().connects > 0;
    assert!(world.follow(Duration::from_secs(10), connected).await, "no connection");
    world.pass(Duration::from_millis(50)).await;
    let weather = weather(&mut dice);
    world.context = format!("seed {seed}\n{weather:?}");
    world.proxy.set_weather(weather);
    let (steps, restarts) = (dice.between(10, 30), dice.below(2) * 40);
    for _ in 0..steps {
        if dice.permille(restarts) {
            world.engine.restart();
            if dice.below(2) == 0 {
                world.proxy.hang_up();
            }
        }
        world.engine.work(dice.between(1, 4));
        let time = dice.below(15) as u64;
        world.pass(Duration::from_millis(time)).await;
    }
    // Nothing more is lost.
    world.proxy.set_weather(Weather::default());
    world.pass(Duration::from_millis(100)).await;
    world.engine.work(2);
    let recovered = world.follow(Duration::from_secs(2), World::is_exact).await;
    let report = world.report();
    assert!(recovered || report.state != SourceState::Exact, "EXACT and wrong\n{}\n{report:?}", world.context);
    // What was lost for good does not matter once the cache is empty.
    world.engine.clear();
    world.engine.work(2);
    let healed = world.follow(Duration::from_secs(10), World::is_exact).await;
    assert!(healed, "not healed by an empty cache\n{}\n{:?}", world.context, world.report());
    Outcome { made: world.proxy.made().await, looks: world.looks, restarts: world.report().restarts, recovered }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_lies_between_engine_and_bridge_nothing_is_exact_and_wrong() {
    /// Runs at a time: most of one is waiting.
    const AT_ONCE: u64 = 12;
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("PROXY_SEED") {
        run(seed).await;
        return;
    }
    let runs = number("PROXY_RUNS").unwrap_or(200);
    let (mut seeds, mut running, mut all) = (0..runs, JoinSet::new(), Vec::new());
    (&mut seeds).take(AT_ONCE as usize).for_each(|seed| drop(running.spawn(run(seed))));
    while let Some(outcome) = running.join_next().await {
        all.push(outcome.unwrap());
        (&mut seeds).take(1).for_each(|seed| drop(running.spawn(run(seed))));
    }
    assert_eq!(all.len() as u64, runs);
    let sum = |of: fn(&Outcome) -> u64| all.iter().map(of).sum::<u64>();
    let made = [
        sum(|outcome| outcome.made.drop),
        sum(|outcome| outcome.made.duplicate),
        sum(|outcome| outcome.made.reorder),
        sum(|outcome| outcome.made.truncate),
        sum(|outcome| outcome.made.thin_replay),
        sum(|outcome| outcome.made.without_marker),
        sum(|outcome| outcome.made.restart_in_replay),
        sum(|outcome| outcome.restarts),
    ];
    let (looks, recovered) = (sum(|outcome| outcome.looks), sum(|outcome| u64::from(outcome.recovered)));
    println!(
        "{runs} runs, {recovered} exact again by themselves, {looks} looks at exact indexes; dropped, repeated, reordered, cut, \
         thinned, without marker, died in a replay, restarts seen: {made:?}"
    );
    assert!(made.iter().all(|count| *count > 0), "{made:?}");
    assert!(looks > 10 * runs && recovered * 2 > runs, "{looks} looks, {recovered} recovered");
}
