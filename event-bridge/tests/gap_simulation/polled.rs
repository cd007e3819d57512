//! Engines whose events are fetched out of their buffer: answers that get lost, buffers that overflow, processes that are started
//! anew and begin with the very same events.

use std::collections::BTreeSet;
use std::time::Instant;

use event_bridge::ingest::{GapPolicy, Ingest, IngestConfig, Parity, SourceReport, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::block::BlockSize;
use kv_routing::target::Slot;
use kv_routing::wire::SourceState;

use super::dice::Dice;
use super::engine::{BLOCK, Engine, Layout};
use super::{number, seeds};

const SLOT: Slot = Slot(1);

#[derive(Debug, Default)]
struct Tally {
    exact: u64,
    looks: u64,
    restarts: u64,
    losses: u64,
    overflows: u64,
}

/// Chances in a thousand.
#[derive(Clone, Copy, Debug)]
struct Weather {
    restart: usize,
    lost_answer: usize,
    unreached: usize,
    keeps: usize,
    keep: bool,
}

struct World {
    weather: Weather,
    dice: Dice,
    engine: Engine,
    ingest: Ingest,
    connected: bool,
    lives: u64,
    /// Polls that fail before the engine that was started anew answers.
    away: usize,
    looks: u64,
}

#[test]
fn polled_engines_are_never_exact_and_wrong() {
    let mut tally = Tally::default();
    for seed in seeds() {
        run(seed, &mut tally);
    }
    println!("{tally:?}");
    if number("GAP_SEED").is_none() {
        let runs = seeds().count() as u64;
        assert!(tally.exact * 3 > runs && tally.looks > 10 * runs, "{tally:?}");
        assert!(tally.restarts * 4 > runs && tally.losses > 0 && tally.overflows > 0, "{tally:?}");
    }
}

fn run(seed: u64, tally: &mut Tally) {
    let mut dice = Dice::new(seed ^ 0xb0a7);
    let mut chance = |most: usize| if dice.below(2) == 0 { 0 } else { dice.between(1, most) };
    let (restart, lost_answer, mut unreached) = (chance(60), chance(80), chance(80));
    let mut keeps = 16_384;
    if dice.below(4) == 0 {
        // A process whose buffer overflows before it is asked for the first time may by chance go on with the former one's
        // numbers. Real buffers hold thousands of events.
        (keeps, unreached) = (dice.between(3, 12), 0);
    }
    let weather = Weather { restart, lost_answer, unreached, keeps, keep: dice.below(4) == 0 };
    let mut world = World::new(seed, weather);
    for _ in 0..dice.between(20, 120) {
        world.step();
    }
    // A last event, after which nothing is lost.
    world.weather = Weather { restart: 0, lost_answer: 0, unreached: 0, ..weather };
    for _ in 0..5 {
        world.step();
    }
    let before = world.engine.next_seq;
    while world.engine.next_seq == before {
        world.engine.work(&mut world.dice);
    }
    world.step();
    let (report, truth, indexed) = (world.report(), world.engine.holds(), world.indexed());
    let context = format!("seed {seed}\n{weather:?}\n{report:?}\n{indexed:?}\n{truth:?}");
    assert!(report.state != SourceState::Exact || indexed == truth, "EXACT and wrong\n{context}");
    if weather.lost_answer == 0 && weather.keeps > 10_000 {
        assert_eq!((report.state, &indexed), (SourceState::Exact, &truth), "nothing was lost\n{context}");
    }
    tally.exact += u64::from(report.state == SourceState::Exact);
    tally.looks += world.looks;
    tally.restarts += report.restarts;
    tally.losses += report.losses;
    tally.overflows += u64::from(world.engine.trimmed);
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let gap_policy = if weather.keep { GapPolicy::Keep } else { GapPolicy::Clear };
        let expected_block_size = BlockSize::new(BLOCK as u32);
        let mut ingest = Ingest::new(IngestConfig { gap_policy, expected_block_size, ..IngestConfig::default() });
        ingest.add_target(SLOT, SourceSpec { polled: true, ..SourceSpec::default() });
        ingest.set_parity(SLOT, Parity::Shown);
        Self {
            weather,
            dice: Dice::new(seed),
            engine: Engine::new(Layout::Json, weather.keeps, seed),
            ingest,
            connected: false,
            lives: 1,
            away: 0,
            looks: 0,
        }
    }

    fn hear(&mut self, event: StreamEvent) {
        assert!(self.ingest.handle(SLOT, event, Instant::now()).is_empty(), "nobody can be asked");
        // Another process has to show that it agrees, which is not the matter here.
        self.ingest.set_parity(SLOT, Parity::Shown);
    }

    fn fail(&mut self, event: StreamEvent) {
        self.connected = false;
        self.hear(event);
    }

    /// Some work, and the next poll.
    fn step(&mut self) {
        let restarts = self.away == 0 && self.dice.permille(self.weather.restart);
        if restarts {
            // What is asked while the old process dies may be lost with it.
            if self.dice.permille(300) && self.weather.lost_answer > 0 {
                self.fail(StreamEvent::AnswerLost { reason: "reset".into() });
            }
            self.lives += 1;
            self.engine = Engine::new(Layout::Json, self.weather.keeps, self.lives);
            self.away = self.dice.between(1, 3);
        }
        if self.away > 0 {
            self.away -= 1;
            return self.fail(StreamEvent::Disconnected { reason: "refused".into() });
        }
        for _ in 0..self.dice.between(0, 3) {
            self.engine.work(&mut self.dice);
        }
        if self.dice.permille(self.weather.unreached) {
            return self.fail(StreamEvent::Disconnected { reason: "refused".into() });
        }
        let answer = std::mem::take(&mut self.engine.buffer);
        if self.dice.permille(self.weather.lost_answer) {
            return self.fail(StreamEvent::AnswerLost { reason: "timeout".into() });
        }
        if !std::mem::replace(&mut self.connected, true) {
            self.hear(StreamEvent::Connected);
        }
        for (seq, payload) in answer {
            self.hear(StreamEvent::Live { seq, payload, received: Instant::now() });
        }
        self.look();
    }

    /// All that the engine had to tell was fetched.
    fn look(&mut self) {
        let report = self.report();
        if report.state == SourceState::Exact {
            self.looks += 1;
            let (indexed, truth) = (self.indexed(), self.engine.holds());
            assert_eq!(indexed, truth, "EXACT and wrong in life {}\n{:?}\n{report:?}", self.lives, self.weather);
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
}
