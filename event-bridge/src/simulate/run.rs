//! Arrivals and engine events in order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use kv_routing::block::BlockSize;
use kv_routing::index::{Overlap, Overlaps};
use kv_routing::policy::document::{Facts, Mode, Policy, RuleSet, Selection};
use kv_routing::policy::session::{self, SessionId};
use kv_routing::policy::{
    BookingId, BookingRequest, Checkpoints, Hints, Ledger, Outcome, PREFIX_TOKENS, Phase, Rng, Situation, SplitMix64,
    TargetLoad, prefix_key, route,
};
use kv_routing::target::Slot;
use kv_routing::wire::{TargetEntry, UnixMillis};

use super::engine::{Engine, EngineModel, Step};
use super::report::Report;
use super::trace::{Arrival, BLOCK_TOKENS};

/// A model of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Number of engines.
    pub engines: u16,
    /// What each can do.
    pub model: EngineModel,
    /// Seed of every random choice.
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    FirstToken,
    Done,
}

/// An event at an engine: time, order of making, kind, engine, request.
type Event = Reverse<(u64, u64, What, usize, usize)>;

struct Simulation<'a> {
    arrivals: &'a [Arrival],
    rules: &'a RuleSet,
    shadow: Option<&'a RuleSet>,
    engines: Vec<Engine>,
    targets: Vec<TargetEntry>,
    ledger: Ledger,
    bookings: Vec<Option<BookingId>>,
    rng: SplitMix64,
    events: BinaryHeap<Event>,
    made: u64,
    turn: u32,
    /// Where sessions were served last, in the buckets of [`session`].
    sessions: HashMap<u32, Vec<u8>>,
    block_size: BlockSize,
    report: Report,
}

/// A session under a policy, and how long it is remembered.
type Session = (SessionId, u32);

/// Replays `arrivals` under the policies of `rules`. A `shadow` is evaluated beside them, without effect. `progress` is told the
/// number of requests routed so far.
pub fn simulate(
    arrivals: &[Arrival],
    rules: &RuleSet,
    shadow: Option<&RuleSet>,
    setup: &Setup,
    progress: impl Fn(usize),
) -> Report {
    let Some(block_size) = BlockSize::new(BLOCK_TOKENS) else { return Report::default() };
    let mut simulation = Simulation {
        arrivals,
        rules,
        shadow,
        engines: (0..setup.engines).map(|_| Engine::new(setup.model)).collect(),
        targets: (0..setup.engines).map(|slot| target(slot, &setup.model)).collect(),
        ledger: Ledger::default(),
        bookings: vec![None; arrivals.len()],
        rng: SplitMix64::new(setup.seed),
        events: BinaryHeap::new(),
        made: 0,
        turn: 0,
        sessions: HashMap::new(),
        block_size,
        report: Report::default(),
    };
    for (request, arrival) in arrivals.iter().enumerate() {
        simulation.run_until(arrival.at_us);
        simulation.arrive(request, arrival);
        progress(request + 1);
    }
    simulation.run_until(u64::MAX);
    simulation.report.finish(arrivals, &simulation.engines);
    simulation.report
}

/// The arrival's session, if its policy has any.
fn session_of(policy: &Policy, arrival: &Arrival) -> Option<Session> {
    match policy.mode {
        Mode::Session { ttl_seconds, .. } => {
            Some((SessionId::of("", &policy.name, arrival.session.as_bytes()), ttl_seconds))
        }
        _ => None,
    }
}

fn seconds(arrival: &Arrival) -> u32 {
    u32::try_from(arrival.at_us / 1_000_000).unwrap_or(u32::MAX)
}

fn engine_name(number: u16) -> String {
    format!("engine-{number}")
}

fn target(slot: u16, model: &EngineModel) -> TargetEntry {
    TargetEntry {
        capacity_blocks: model.cache_tokens / u64::from(BLOCK_TOKENS),
        ..TargetEntry::new(Slot(slot), &engine_name(slot), None)
    }
}

impl Simulation<'_> {
    fn run_until(&mut self, until: u64) {
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= until
            && let Some(Reverse((at, _, what, engine, request))) = self.events.pop()
        {
            let (Some(arrival), Some(on)) = (self.arrivals.get(request), self.engines.get_mut(engine)) else {
                continue;
            };
            let booking = self.bookings.get(request).copied().flatten();
            match what {
                What::FirstToken => {
                    self.report.first_token(at - arrival.at_us);
                    booking.into_iter().for_each(|booking| self.ledger.release_prefill(booking));
                }
                What::Done => {
                    on.finish(&arrival.chain);
                    booking.into_iter().for_each(|booking| self.ledger.end(booking, false));
                    self.admit(engine, at);
                }
            }
        }
    }

    fn admit(&mut self, engine: usize, now: u64) {
        let Some(on) = self.engines.get_mut(engine) else { return };
        for (at, step) in on.admit(now, self.arrivals) {
            let (what, request) = match step {
                Step::FirstToken(request) => (What::FirstToken, request),
                Step::Done(request) => (What::Done, request),
            };
            self.made += 1;
            self.events.push(Reverse((at, self.made, what, engine, request)));
        }
    }

    fn arrive(&mut self, request: usize, arrival: &Arrival) {
        for (target, engine) in self.targets.iter_mut().zip(&self.engines) {
            target.running = engine.active();
            target.waiting = u32::try_from(engine.waiting()).unwrap_or(u32::MAX);
        }
        let checkpoints = Checkpoints::of(&arrival.chain);
        let chosen = match self.decide(arrival, &checkpoints) {
            Outcome::Chosen(choice) => Some((choice.target as usize, choice.prefill_tokens)),
            Outcome::Refused(_) => {
                self.report.refused += 1;
                None
            }
            Outcome::Pass(_) => self.envoys_choice().map(|engine| (engine, arrival.prompt_tokens.into())),
        };
        let Some((engine, prefill_tokens)) = chosen else { return };
        if let Some(target) = self.targets.get(engine) {
            let blocks = arrival.prompt_tokens.div_ceil(BLOCK_TOKENS);
            let booked = self.ledger.book(BookingRequest { target: target.id, blocks, prefill_tokens, checkpoints });
            if let Some(booking) = self.bookings.get_mut(request) {
                *booking = Some(booked);
            }
        }
        if let Some(on) = self.engines.get_mut(engine) {
            on.enqueue(request);
        }
        self.admit(engine, arrival.at_us);
    }

    /// What the policies make of an arrival; the shadow draws the same random numbers and knows the same sessions.
    fn decide(&mut self, arrival: &Arrival, checkpoints: &Checkpoints) -> Outcome {
        let overlaps = self.overlaps(arrival);
        let loads = TargetLoad::of_own(&self.targets, &self.ledger, checkpoints);
        self.turn = self.turn.wrapping_add(1);
        let mut rng = self.rng.clone();
        let (outcome, session) = self.choose(self.rules, arrival, &overlaps, &loads, &mut rng);
        if let Some(shadow) = self.shadow {
            let (imagined, _) = self.choose(shadow, arrival, &overlaps, &loads, &mut self.rng.clone());
            self.report.beside(&outcome, &imagined);
        }
        self.rng = rng;
        if let (Outcome::Chosen(choice), Some(session)) = (&outcome, session) {
            self.remember(session, choice.target, arrival);
        }
        outcome
    }

    fn choose(
        &self,
        rules: &RuleSet,
        arrival: &Arrival,
        overlaps: &Overlaps,
        loads: &[TargetLoad],
        rng: &mut SplitMix64,
    ) -> (Outcome, Option<Session>) {
        let facts = Facts {
            model: "",
            adapter: None,
            path: "/v1/chat/completions",
            stream: true,
            priority: 0,
            prompt_tokens: Some(arrival.prompt_tokens),
            header: &|_| None,
        };
        let Selection::Chosen(policy, _) = rules.select(&facts) else {
            return (Outcome::Pass(kv_routing::policy::PassReason::Mode), None);
        };
        let prefix_tokens = match policy.mode {
            Mode::PrefixHash { tokens, .. } => tokens,
            _ => PREFIX_TOKENS,
        };
        let situation = Situation {
            targets: &self.targets,
            loads,
            phase: Phase::Whole,
            prompt_tokens: arrival.prompt_tokens,
            block_size: self.block_size,
            overlaps,
            predicted: &Overlaps::default(),
            prefix: prefix_key(&arrival.chain, self.block_size, b"", prefix_tokens),
            has_chain: !arrival.chain.is_empty(),
            silence: None,
            stale_decay_ms: 0,
            now: UnixMillis(arrival.at_us / 1000),
        };
        let session = session_of(policy, arrival);
        let bucket = session.and_then(|(id, _)| self.sessions.get(&id.bucket()));
        let known =
            session.zip(bucket).and_then(|((id, ttl), bucket)| session::find(bucket, id, seconds(arrival), ttl));
        let worker = arrival.worker.map(engine_name);
        let hints = Hints { session: known, direct: worker.as_deref().map(str::as_bytes), turn: self.turn };
        (route(&situation, policy, &hints, rng), session)
    }

    fn remember(&mut self, (id, ttl): Session, target: u32, arrival: &Arrival) {
        let Some(target) = self.targets.get(target as usize) else { return };
        let bucket = self.sessions.entry(id.bucket()).or_default();
        if let Some(renewed) = session::remember(bucket, id, target.id, seconds(arrival), ttl) {
            *bucket = renewed;
        }
    }

    fn overlaps(&self, arrival: &Arrival) -> Overlaps {
        let held = self.targets.iter().zip(&self.engines).map(|(target, engine)| {
            (target.slot, Overlap { device: engine.overlap(&arrival.chain), host: 0, disk: 0 })
        });
        Overlaps(held.filter(|(_, overlap)| overlap.total() > 0).collect())
    }

    /// Envoy's least-request balancing: the less loaded of two at random.
    fn envoys_choice(&mut self) -> Option<usize> {
        let mut draw = || usize::try_from(self.rng.next_u64() % self.engines.len().max(1) as u64).ok();
        let (one, other) = (draw()?, draw()?);
        let load = |at: usize| self.engines.get(at).map(|engine| engine.waiting() + engine.active() as usize);
        Some(if load(other) < load(one) { other } else { one })
    }
}
